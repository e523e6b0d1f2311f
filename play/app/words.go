package app

import (
	"fmt"
	"slices"
	"strings"
)

// WordsError says why a command line can not be split into words.
type WordsError struct {
	Line string // the command line
	Msg  string
}

func (e *WordsError) Error() string {
	return fmt.Sprintf("command line %q: %s", e.Line, e.Msg)
}

// operators mean something to a shell only. As a bare word each of them is far
// more likely a misunderstanding than an argument.
var operators = []string{"&&", "||", "|", ";", "&", ">", ">>", "<", "2>&1", "2>"}

// SplitWords splits a command line into words as a POSIX shell does with
// quotes: 'text' is taken as it is, "text" with \" and \\ as escapes, and a
// backslash outside quotes takes the next character as it is. Nothing else of a
// shell is there; a bare operator such as && is an error, since it would
// otherwise become an argument in silence. The error is a *[WordsError].
func SplitWords(line string) ([]string, error) {
	fail := func(format string, args ...any) ([]string, error) {
		return nil, &WordsError{Line: line, Msg: fmt.Sprintf(format, args...)}
	}
	var words []string
	var word strings.Builder
	inWord, quoted := false, false
	end := func() bool {
		w := word.String()
		bare := inWord && !quoted
		if inWord {
			words = append(words, w)
		}
		word.Reset()
		inWord, quoted = false, false
		return !bare || !slices.Contains(operators, w)
	}
	rs := []rune(line)
	for i := 0; i < len(rs); i++ {
		switch r := rs[i]; r {
		case ' ', '\t', '\n', '\r':
			if !end() {
				return fail("%s needs a shell, and none is used here: write sh -c '...'", words[len(words)-1])
			}
		case '\'', '"':
			inWord, quoted = true, true
			n, ok := quotedText(&word, rs[i+1:], r)
			if !ok {
				return fail("the quote %c is not closed: close it, or write \\%c for the character itself", r, r)
			}
			i += n
		case '\\':
			if i+1 == len(rs) {
				return fail("it ends with a backslash: write \\\\ for the character itself")
			}
			i++
			inWord, quoted = true, true
			word.WriteRune(rs[i])
		default:
			inWord = true
			word.WriteRune(r)
		}
	}
	if !end() {
		return fail("%s needs a shell, and none is used here: write sh -c '...'", words[len(words)-1])
	}
	if len(words) == 0 {
		return fail("it is empty: write the program and its arguments")
	}
	return words, nil
}

// quotedText adds the text up to the closing quote to w and returns how many
// runes were used, the closing quote included.
func quotedText(w *strings.Builder, rs []rune, quote rune) (int, bool) {
	for i := 0; i < len(rs); i++ {
		if rs[i] == quote {
			return i + 1, true
		}
		if quote == '"' && rs[i] == '\\' && i+1 < len(rs) && (rs[i+1] == '"' || rs[i+1] == '\\') {
			i++
		}
		w.WriteRune(rs[i])
	}
	return 0, false
}
