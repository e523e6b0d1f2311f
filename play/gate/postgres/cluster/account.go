package cluster

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// account is the system user that the server runs as.
type account struct {
	name     string
	uid, gid int
	// other: it is not the user that Holdfast runs as.
	other bool
}

// serverAccount is the current user, or for root, whom PostgreSQL refuses,
// user postgres, else nobody.
func serverAccount() (account, error) {
	if os.Geteuid() != 0 {
		return account{uid: os.Geteuid(), gid: os.Getegid()}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.Atoi(u.Uid)
		if err != nil || uid == 0 {
			continue
		}
		gid, err := strconv.Atoi(u.Gid)
		if err != nil {
			continue
		}
		return account{name: name, uid: uid, gid: gid, other: true}, nil
	}
	return account{}, fmt.Errorf("start PostgreSQL: it does not run as root, and there is neither " +
		"a user postgres nor a user nobody to run it as: create one (useradd --system postgres), or run Holdfast as another user")
}

// credential is for SysProcAttr: nil for the current user.
func (a account) credential() *syscall.Credential {
	if !a.other {
		return nil
	}
	return &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
}

// own gives a file or folder to the account.
func (a account) own(path string) error {
	if !a.other {
		return nil
	}
	return os.Lchown(path, a.uid, a.gid)
}

// reaches reports whether the account can go through every folder on the way
// to dir. A folder below /root is what this finds: initdb would only say
// "could not access directory".
func (a account) reaches(dir string) error {
	if !a.other {
		return nil
	}
	for {
		fi, err := os.Stat(dir)
		if err != nil {
			return err
		}
		st, ok := fi.Sys().(*syscall.Stat_t)
		if !ok {
			return fmt.Errorf("%s: no owner known", dir)
		}
		need := os.FileMode(0o001)
		switch {
		case int(st.Uid) == a.uid:
			need = 0o100
		case int(st.Gid) == a.gid:
			need = 0o010
		}
		if fi.Mode()&need == 0 {
			return fmt.Errorf("user %s, as whom PostgreSQL runs, can not enter %s: name another folder", a.name, dir)
		}
		if dir == filepath.Dir(dir) {
			return nil
		}
		dir = filepath.Dir(dir)
	}
}
