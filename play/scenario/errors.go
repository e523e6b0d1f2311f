package scenario

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Error is one mistake in a scenario file. Load and Parse join several of them
// in the order of their lines; errors.As finds the first.
type Error struct {
	File string
	// Line and Column count from 1. An error about the file as a whole has 1.
	Line, Column int
	// Key is the path of the key, as in "requests[1].json"; empty for the
	// whole document.
	Key string
	// Msg says what is wrong and what to write.
	Msg string
}

func (e *Error) Error() string {
	if e.Key == "" {
		return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Msg)
	}
	return fmt.Sprintf("%s:%d:%d: %s: %s", e.File, e.Line, e.Column, e.Key, e.Msg)
}

// joined sorts the mistakes by place and joins them; nil without any.
func joined(errs []*Error) error {
	slices.SortStableFunc(errs, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	all := make([]error, len(errs))
	for i, e := range errs {
		all[i] = e
	}
	return errors.Join(all...)
}

// suggest ends a message about an unknown name: with the known name that was
// probably meant, or else with all of them. what is the plural of their kind.
func suggest(name, what string, known []string) string {
	best, bestDistance := "", 3
	for _, k := range known {
		// One mistake in up to five letters, two in longer names: "env" is no
		// misspelling of "url".
		allowed := 1
		if len(k) > 5 {
			allowed = 2
		}
		if d := distance(strings.ToLower(name), strings.ToLower(k)); d <= allowed && d < bestDistance {
			best, bestDistance = k, d
		}
	}
	if best != "" {
		return fmt.Sprintf("did you mean %q?", best)
	}
	return fmt.Sprintf("the %s here are %s", what, strings.Join(known, ", "))
}

// distance is the number of letters to insert, delete, replace or swap with
// their neighbour to turn a into b (optimal string alignment).
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	rows := make([][]int, len(x)+1)
	for i := range rows {
		rows[i] = make([]int, len(y)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(x); i++ {
		for j := 1; j <= len(y); j++ {
			replace := rows[i-1][j-1]
			if x[i-1] != y[j-1] {
				replace++
			}
			rows[i][j] = min(replace, rows[i-1][j]+1, rows[i][j-1]+1)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(x)][len(y)]
}
