// Package arch holds the test of the arrows that ARCHITECTURE.md draws.
package arch

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/holdfast-dev/holdfast/"

// mechanisms are the top-level packages that prevent one kind of race each.
var mechanisms = []string{"marker", "document", "manifest", "counter", "machine", "idempotency", "lease",
	"singleton", "outbox", "conflict", "httpcond", "guard"}

// never lists who must not import whom, by folder.
var never = func() map[string][]string {
	rules := map[string][]string{
		"atomicfile":           append([]string{"play", "review", "store", "serve", "cmd"}, mechanisms...),
		"play":                 append([]string{"review", "store", "atomicfile", "serve", "cmd"}, mechanisms...),
		"review":               append([]string{"play", "store", "atomicfile", "serve", "cmd"}, mechanisms...),
		"store":                append([]string{"play", "review", "serve", "cmd"}, mechanisms...),
		"play/explore":         {"play/gate", "play/oracle", "play/report", "play/scenario", "play/app"},
		"play/oracle":          {"play/explore", "play/gate", "play/report", "play/scenario", "play/app"},
		"play/gate":            {"play/report", "play/scenario", "play/app"},
		"play/gate/file/power": {"play/explore"},
		"play/report":          {"play/gate", "play/scenario", "play/app"},
		"play/app":             {"play/gate", "play/explore", "play/report", "play/scenario"},
		"play/scenario":        {"play/gate", "play/explore", "play/report"},
		// A front end says what code does, the interpreter what can come of it, the
		// rules what that is called, the report how it looks: none knows the next.
		"review/effect":      {"review/witness", "review/rules", "review/report", "review/front"},
		"review/front":       {"review/witness", "review/rules", "review/report"},
		"review/golang":      {"review/witness", "review/rules", "review/report"},
		"review/effectfront": {"review/witness", "review/rules", "review/report"},
		"review/witness":     {"review/front", "review/golang", "review/rules", "review/report"},
		"review/rules":       {"review/front", "review/golang", "review/report"},
		"review/report":      {"review/golang"},
	}
	for _, m := range mechanisms {
		rules[m] = []string{"play", "review", "serve", "cmd"}
	}
	return rules
}()

func TestImports(t *testing.T) {
	root := filepath.Join("..", "..")
	files := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "node_modules" || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && path != root) {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		files++
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range file.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if target, ours := strings.CutPrefix(name, module); ours {
				check(t, filepath.ToSlash(rel), target)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 20 {
		t.Fatalf("only %d files were looked at: the walk is broken", files)
	}
}

func check(t *testing.T, file, target string) {
	t.Helper()
	for from, forbidden := range never {
		if !inside(file, from) {
			continue
		}
		for _, to := range forbidden {
			if inside(target, to) {
				t.Errorf("%s imports %s: %s must never import %s (see ARCHITECTURE.md)", file, target, from, to)
			}
		}
	}
}

func inside(path, folder string) bool { return path == folder || strings.HasPrefix(path, folder+"/") }
