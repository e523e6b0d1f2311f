package cluster

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// The cache is one file per version and arguments of initdb: a tar archive of
// a fresh data folder, and after it a trailer with a magic word and a checksum
// of everything before. One file and not a folder, so that a single rename
// replaces it whole while another process that has it open reads on in the old
// one; the checksum finds what a power cut or a full disk left of it.

const cacheMagic = "HFPGDATA"

// staleTemp is the age after which an unfinished cache file was given up.
const staleTemp = time.Hour

var errBroken = errors.New("cached initdb is broken")

// fillData makes the data folder: from the cache if there is a good one, else
// with initdb, whose result then goes into the cache while the server starts;
// the caller waits for that on saved.
func (b *builder) fillData(ctx context.Context) (cached bool, saved *sync.WaitGroup, err error) {
	saved = new(sync.WaitGroup)
	if b.NoCache {
		return false, saved, b.initdb(ctx)
	}
	path, err := b.cachePath()
	if err != nil {
		b.log.Debug("no cache for initdb", "err", err)
		return false, saved, b.initdb(ctx)
	}
	began := time.Now()
	err = b.readCache(path)
	if err == nil {
		b.log.Debug("data folder copied from cache", "cache", path, "took", time.Since(began))
		return true, saved, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		b.log.Debug("cached initdb not used", "cache", path, "err", err)
	}
	if err := b.folder.empty(b.as); err != nil {
		return false, saved, fmt.Errorf("start PostgreSQL: %w", err)
	}
	if err := b.initdb(ctx); err != nil {
		return false, saved, err
	}
	// Packed before the server changes the folder.
	packed, err := pack(b.folder.data)
	if err != nil {
		b.log.Debug("initdb not cached", "err", err)
		return false, saved, nil
	}
	saved.Go(func() {
		if err := writeCache(path, packed); err != nil {
			b.log.Debug("initdb not cached", "cache", path, "err", err)
		}
	})
	return false, saved, nil
}

func (b *builder) cachePath() (string, error) {
	dir := b.CacheDir
	if dir == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(user, "holdfast")
	}
	// The programs are part of the key: a build of the same version with
	// another block size makes another folder.
	fi, err := os.Stat(filepath.Join(b.BinDir, "postgres"))
	if err != nil {
		return "", err
	}
	h := sha256.New()
	fmt.Fprintln(h, cacheMagic, b.version, fi.Size(), fi.ModTime().UnixNano(), strings.Join(initdbArgs, " "))
	return filepath.Join(dir, "pg-"+b.version+"-"+hex.EncodeToString(h.Sum(nil)[:6])+".tar"), nil
}

var crcTable = crc32.MakeTable(crc32.Castagnoli)

func (b *builder) readCache(path string) error {
	all, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	n := len(all) - len(cacheMagic) - crc32.Size
	if n < 0 || string(all[n:n+len(cacheMagic)]) != cacheMagic ||
		binary.BigEndian.Uint32(all[n+len(cacheMagic):]) != crc32.Checksum(all[:n], crcTable) {
		return errBroken
	}
	return unpack(all[:n], b.folder.data, b.as)
}

func writeCache(path string, packed []byte) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	removeStale(dir)
	f, err := os.CreateTemp(dir, "pg-*.tmp")
	if err != nil {
		return err
	}
	trailer := binary.BigEndian.AppendUint32([]byte(cacheMagic), crc32.Checksum(packed, crcTable))
	_, err = f.Write(packed)
	if err == nil {
		_, err = f.Write(trailer)
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// removeStale removes files that a killed process did not finish.
func removeStale(dir string) {
	temps, err := filepath.Glob(filepath.Join(globEscape(dir), "pg-*.tmp"))
	if err != nil {
		return
	}
	for _, t := range temps {
		if fi, err := os.Stat(t); err == nil && time.Since(fi.ModTime()) > staleTemp {
			_ = os.Remove(t)
		}
	}
}

// pack makes a tar archive of a folder that has only folders and files.
func pack(dir string) ([]byte, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: rel, Mode: 0o700})
		}
		if !d.Type().IsRegular() {
			return fmt.Errorf("%s is neither a file nor a folder", path)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: rel, Mode: 0o600, Size: int64(len(b))}); err != nil {
			return err
		}
		_, err = w.Write(b)
		return err
	})
	if err != nil {
		return nil, err
	}
	return buf.Bytes(), w.Close()
}

func unpack(packed []byte, dir string, as account) error {
	r := tar.NewReader(bytes.NewReader(packed))
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%w: %w", errBroken, err)
		}
		if !filepath.IsLocal(h.Name) {
			return fmt.Errorf("%w: it has the path %q", errBroken, h.Name)
		}
		path := filepath.Join(dir, h.Name)
		if h.Typeflag == tar.TypeDir {
			err = os.Mkdir(path, 0o700)
		} else {
			err = writeFile(path, r)
		}
		if err != nil {
			return err
		}
		if err := as.own(path); err != nil {
			return err
		}
	}
}

func writeFile(path string, r io.Reader) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Close())
}
