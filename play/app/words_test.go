package app

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestSplitWords(t *testing.T) {
	for line, want := range map[string][]string{
		`go build -o ${work}/wallet .`:   {"go", "build", "-o", "${work}/wallet", "."},
		"  a\tb\n c ":                    {"a", "b", "c"},
		`sh -c 'a && b "c"'`:             {"sh", "-c", `a && b "c"`},
		`x --name="a b"'c d'e`:           {"x", "--name=a bc de"},
		`x "a \"b\" \\ \n" '' ""`:        {"x", `a "b" \ \n`, "", ""},
		`x a\ b \' \"`:                   {"x", "a b", "'", `"`},
		`x 'a\' "'"`:                     {"x", `a\`, "'"},
		`x "&&" \| a&&b`:                 {"x", "&&", "|", "a&&b"},
		`grep ü "→"`:                     {"grep", "ü", "→"},
		`node -e "x => ${port}" $HOME *`: {"node", "-e", "x => ${port}", "$HOME", "*"},
	} {
		if got, err := SplitWords(line); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: got %q, %v", line, got, err)
		}
	}
	for line, want := range map[string]string{
		"":               "it is empty",
		" \t":            "it is empty",
		`a 'b`:           "the quote ' is not closed",
		`a "b\"`:         `the quote " is not closed`,
		`a \`:            "ends with a backslash",
		"cd x && ./a":    "&& needs a shell",
		"a > out":        "> needs a shell",
		"a | b":          "| needs a shell",
		"server &":       "& needs a shell",
		"server\t2>&1\n": "2>&1 needs a shell",
	} {
		_, err := SplitWords(line)
		if err == nil || !errors.As(err, new(*WordsError)) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", line, err, want)
		}
	}
}
