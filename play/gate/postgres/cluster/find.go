package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// oldest is the first major version with DROP DATABASE ... WITH (FORCE).
const oldest = 13

// places are where packages put the server's programs: Debian and Ubuntu, the
// PostgreSQL project's RPMs, an installation from source, Homebrew.
var places = [...]string{
	"/usr/lib/postgresql/*/bin",
	"/usr/pgsql-*/bin",
	"/usr/local/pgsql/bin",
	"/opt/homebrew/opt/postgresql@*/bin",
}

// FindBinDir finds the folder with initdb and postgres: the one that
// HOLDFAST_PG_BIN names, else one on PATH, else the highest version in the
// places where packages put them. The error is a [*NotFoundError].
func FindBinDir(ctx context.Context) (string, error) {
	return find(ctx, os.Getenv("HOLDFAST_PG_BIN"), os.Getenv("PATH"), places[:])
}

func find(ctx context.Context, named, path string, globs []string) (string, error) {
	if named != "" {
		// A folder that the user names is used or refused, never passed over:
		// another version would surprise them.
		if err := usable(ctx, named); err != nil {
			return "", &NotFoundError{Looked: []string{"HOLDFAST_PG_BIN=" + named + ": " + err.Error()}}
		}
		return named, nil
	}
	var looked []string
	for _, dir := range filepath.SplitList(path) {
		// On PATH there may be a link to postgres alone; initdb is beside what
		// it points to.
		real, err := filepath.EvalSymlinks(filepath.Join(dir, "postgres"))
		if err != nil || !filepath.IsAbs(dir) {
			continue
		}
		if err := usable(ctx, filepath.Dir(real)); err != nil {
			looked = append(looked, filepath.Dir(real)+": "+err.Error())
			continue
		}
		return filepath.Dir(real), nil
	}
	looked = append(looked, "PATH")
	var dirs []string
	for _, g := range globs {
		m, err := filepath.Glob(g)
		if err != nil {
			return "", fmt.Errorf("look for PostgreSQL in %s: %w", g, err)
		}
		dirs = append(dirs, m...)
		looked = append(looked, g)
	}
	slices.SortStableFunc(dirs, func(a, b string) int { return cmp.Compare(versionInPath(b), versionInPath(a)) })
	for _, dir := range dirs {
		if err := usable(ctx, dir); err != nil {
			looked = append(looked, dir+": "+err.Error())
			continue
		}
		return dir, nil
	}
	return "", &NotFoundError{Looked: looked}
}

func usable(ctx context.Context, dir string) error {
	for _, name := range []string{"initdb", "postgres"} {
		if _, err := exec.LookPath(filepath.Join(dir, name)); err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("no %s", name)
			}
			return err
		}
	}
	v, err := binVersion(ctx, dir)
	if err != nil {
		return err
	}
	if major(v) < oldest {
		return fmt.Errorf("version %s, at least %d is needed", v, oldest)
	}
	return nil
}

var digits = regexp.MustCompile(`[0-9]+`)

// versionInPath is the last number in a folder's name: 15 of
// /usr/lib/postgresql/15/bin, 0 without one.
func versionInPath(dir string) int {
	all := digits.FindAllString(dir, -1)
	if len(all) == 0 {
		return 0
	}
	n, err := strconv.Atoi(all[len(all)-1])
	if err != nil {
		return 0
	}
	return n
}

// binVersion asks postgres for its version: "15.18" of
// "postgres (PostgreSQL) 15.18 (Debian ...)".
func binVersion(ctx context.Context, dir string) (string, error) {
	program := filepath.Join(dir, "postgres")
	out, err := exec.CommandContext(ctx, program, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("ask %s for its version: %w", program, err)
	}
	f := strings.Fields(string(out))
	if len(f) < 3 || major(f[2]) == 0 {
		return "", fmt.Errorf("ask %s for its version: can not read the answer %q", program, out)
	}
	return f[2], nil
}

// major is the first number of a version such as "15.18" or "18beta2"; 0 if
// there is none.
func major(version string) int {
	loc := digits.FindStringIndex(version)
	if loc == nil || loc[0] != 0 {
		return 0
	}
	n, err := strconv.Atoi(version[:loc[1]])
	if err != nil {
		return 0
	}
	return n
}
