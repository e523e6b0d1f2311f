package tree

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/holdfast-dev/holdfast/play/oracle"
)

// FilesTable is the name of the table that lists all files.
const FilesTable = "files"

// FileTable is the name of the table with a file's content.
func FileTable(path string) string { return "file " + path }

// Tables shows the state to the oracle: a table "files" with the path, type and
// mode of everything, so that left-over temporary files show, and for each file a
// table "file PATH" with its content in one row. Content that parses as JSON, or
// as YAML in a file called .yaml or .yml, is a JSON column and compared by value.
// Content that is no text is shown by its size and digest.
//
// rename gives random names the stable ones of the gate; nil keeps all names.
func (s State) Tables(rename func(path string) string) []oracle.Table {
	if rename == nil {
		rename = func(p string) string { return p }
	}
	list := oracle.Table{Name: FilesTable, Key: []int{0}, Columns: []oracle.Column{
		{Name: "path", Type: oracle.Plain}, {Name: "type", Type: oracle.Plain}, {Name: "mode", Type: oracle.Plain}}}
	var tables []oracle.Table
	for _, p := range slices.Sorted(maps.Keys(s)) {
		n := s[p]
		name := rename(p)
		kind := "file"
		switch {
		case n.Mode.IsDir():
			kind = "directory"
		case n.Mode&fs.ModeSymlink != 0:
			kind = "link to " + string(n.Data)
		default:
			tables = append(tables, n.table(name))
		}
		mode := fmt.Sprintf("%04o", n.Mode.Perm())
		list.Rows = append(list.Rows, []*string{&name, &kind, &mode})
	}
	return append([]oracle.Table{list}, tables...)
}

func (n Node) table(path string) oracle.Table {
	text, typ := content(path, n.Data)
	return oracle.Table{Name: FileTable(path), Value: true, Columns: []oracle.Column{{Name: "content", Type: typ}}, Rows: [][]*string{{&text}}}
}

// content is a file as a cell. The type of a file that is called .json, .yaml or
// .yml does not depend on whether it parses this time: the oracle needs the same
// columns in each run, and takes what does not parse for text.
func content(path string, data []byte) (string, oracle.Type) {
	switch {
	case !utf8.Valid(data):
		return fmt.Sprintf("%d bytes, sha256 %x", len(data), sha256.Sum256(data)), oracle.Plain
	case isYAML(path):
		var v any
		if err := yaml.Unmarshal(data, &v); err == nil && v != nil {
			if j, err := json.Marshal(v); err == nil {
				return string(j), oracle.JSON
			}
		}
		return string(data), oracle.JSON
	case strings.HasSuffix(path, ".json"), json.Valid(data):
		return string(data), oracle.JSON
	}
	return string(data), oracle.Plain
}

func isYAML(path string) bool {
	return strings.HasSuffix(path, ".yaml") || strings.HasSuffix(path, ".yml")
}

// Torn lists the files that do not parse although their name says what they are
// (.json, .yaml, .yml): empty, cut off or mixed from two writes.
func (s State) Torn() []string {
	var torn []string
	for _, p := range slices.Sorted(maps.Keys(s)) {
		n := s[p]
		if !n.Mode.IsRegular() {
			continue
		}
		var v any
		switch {
		case strings.HasSuffix(p, ".json") && !json.Valid(n.Data),
			isYAML(p) && yaml.Unmarshal(n.Data, &v) != nil:
			torn = append(torn, p)
		}
	}
	return torn
}
