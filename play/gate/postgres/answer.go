package postgres

import (
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/holdfast-dev/holdfast/play/gate"
)

const (
	keptRows    = 3
	keptResults = 8
	cellWidth   = 40
	lineWidth   = 200
)

// answer gathers what the player is told of a kept answer: the first rows of
// each result, undecoded until the answer is complete.
type answer struct {
	fields  []field // of a simple Query's current result
	rows    []pgproto3.DataRow
	count   int
	results []result
	code    string
	failure string
}

// result is one statement's answer.
type result struct {
	fields []field
	rows   []pgproto3.DataRow
	count  int
	tag    string
}

func (a *answer) row(fields []field, body []byte) {
	a.count++
	if len(a.rows) >= keptRows || len(fields) == 0 {
		return
	}
	var d pgproto3.DataRow
	if d.Decode(append([]byte(nil), body...)) == nil && len(d.Values) == len(fields) {
		a.rows = append(a.rows, d)
	}
}

// end closes a result: CommandComplete, EmptyQueryResponse or PortalSuspended.
func (a *answer) end(fields []field, kind byte, body []byte) {
	r := result{fields: fields, rows: a.rows, count: a.count}
	switch kind {
	case 'C':
		r.tag = strings.TrimRight(string(body), "\x00")
	case 'I':
		r.tag = "empty query"
	case 's':
		r.tag = "SELECT " + strconv.Itoa(a.count)
	}
	if len(a.results) == keptResults {
		a.results = a.results[:keptResults-1]
	}
	a.results = append(a.results, r)
	a.fields, a.rows, a.count = nil, nil, 0
}

func (a *answer) fail(body []byte) error {
	var e pgproto3.ErrorResponse
	if err := e.Decode(body); err != nil {
		return err
	}
	a.code = e.Code
	a.failure = e.Severity + " " + e.Code + ": " + e.Message
	a.fields, a.rows, a.count = nil, nil, 0
	return nil
}

// finish makes the player's form of it.
func (a *answer) finish(v *values, open bool) *gate.Answer {
	out := &gate.Answer{Code: a.code, Open: open}
	var line []string
	for _, r := range a.results {
		cells := v.cells(r)
		if len(r.fields) > 0 {
			out.Columns, out.Rows, out.RowCount = columns(r.fields), cells, r.count
		}
		line = append(line, r.summary(cells))
	}
	if a.failure != "" {
		line = append(line, a.failure)
	}
	out.Summary = shorten(fold(strings.Join(line, " / ")), lineWidth)
	return out
}

func columns(fs []field) []string {
	names := make([]string, len(fs))
	for i, f := range fs {
		names[i] = f.name
	}
	return names
}

// summary is "balance=100", "2 rows: id=1 balance=100; id=2 balance=50",
// "UPDATE 1", "INSERT 0 1: id=7", "no rows".
func (r result) summary(cells [][]*string) string {
	query := strings.HasPrefix(r.tag, "SELECT") || strings.HasPrefix(r.tag, "FETCH")
	if !query && r.count == 0 {
		return r.tag
	}
	if r.count == 0 {
		return "no rows"
	}
	var b strings.Builder
	switch {
	case !query:
		b.WriteString(r.tag + ": ")
	case r.count > 1:
		b.WriteString(strconv.Itoa(r.count) + " rows: ")
	}
	for i, row := range cells {
		if i > 0 {
			b.WriteString("; ")
		}
		for j, cell := range row {
			if j > 0 {
				b.WriteByte(' ')
			}
			b.WriteString(r.fields[j].name + "=")
			if cell == nil {
				b.WriteString("NULL")
			} else {
				b.WriteString(shorten(*cell, cellWidth))
			}
		}
	}
	switch {
	case len(cells) == 0:
		b.WriteString("(columns not described)")
	case r.count > len(cells):
		b.WriteString("; …")
	}
	return b.String()
}

// fold makes one line of it: each run of white space becomes one space.
func fold(s string) string { return strings.Join(strings.Fields(s), " ") }

// shorten cuts s after width runes.
func shorten(s string, width int) string {
	if len(s) <= width {
		return s
	}
	n := 0
	for i := range s {
		if n == width {
			return s[:i] + "…"
		}
		n++
	}
	return s
}
