package lease

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/holdfast-dev/holdfast/atomicfile"
	"github.com/holdfast-dev/holdfast/store"
)

// FileLock is a lock among the processes of one machine.
type FileLock struct {
	token  Token
	unlock func()
	once   sync.Once
}

// LockFile takes the lock that path names, waiting until ctx ends; then the
// error is *[HeldError]. It is atomicfile.Lock, which withstands the removal of
// the file and is released by the system when the process ends, together with
// a token. There is no TTL: a stopped process keeps the lock, and nobody can
// take it away.
//
// The token is counted in the file path+".token" and is for what outlives the
// process: a request that it had sent and that arrives after the next holder's.
// Do not delete that file.
func LockFile(ctx context.Context, path string) (*FileLock, error) {
	unlock, err := atomicfile.Lock(ctx, path)
	if err != nil {
		if ctx.Err() != nil {
			return nil, &HeldError{Name: path, Cause: err}
		}
		return nil, err
	}
	token, err := nextFileToken(path + ".token")
	if err != nil {
		unlock()
		return nil, fmt.Errorf("count the token of lock %s: %w", path, err)
	}
	return &FileLock{token: token, unlock: unlock}, nil
}

// nextFileToken counts under the lock. The count is on the disk before the
// token is used; a crash between the two leaves a gap.
func nextFileToken(path string) (Token, error) {
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	var last int64
	if err == nil {
		if last, err = strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err != nil {
			return 0, &store.CorruptError{Key: path, Why: "a number is expected"}
		}
	}
	return Token(last + 1), atomicfile.Write(path, fmt.Appendf(nil, "%d\n", last+1), atomicfile.Options{})
}

// Token returns the fencing token.
func (f *FileLock) Token() Token { return f.token }

// Release frees the lock. Further calls do nothing.
func (f *FileLock) Release() { f.once.Do(f.unlock) }
