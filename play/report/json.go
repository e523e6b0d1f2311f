package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// jsonFormat is the number of the JSON form. It grows only when a field
// changes its meaning or goes; readers must let new fields pass.
const jsonFormat = 1

// document is the JSON form: the report and the number of the form.
type document struct {
	Format int `json:"format"`
	*Report
}

// JSON writes the report as indented JSON. The same report gives the same
// bytes: fields in the order of the types, maps by key, and lists that are
// never null.
func JSON(w io.Writer, r *Report) error {
	if err := r.check(); err != nil {
		return err
	}
	c := *r
	c.Actors = list(c.Actors)
	c.Passes = list(c.Passes)
	c.Findings = append([]Finding{}, c.Findings...)
	for i := range c.Findings {
		f := &c.Findings[i]
		f.Schedule, f.Rows, f.Serial = list(f.Schedule), list(f.Rows), append([]Outcome{}, f.Serial...)
		f.Observed.Cells = list(f.Observed.Cells)
		for j := range f.Serial {
			f.Serial[j].Cells = list(f.Serial[j].Cells)
		}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(document{jsonFormat, &c}); err != nil {
		return fmt.Errorf("encode the report of %s as JSON: %w", r.Scenario, err)
	}
	if _, err := w.Write(b.Bytes()); err != nil {
		return fmt.Errorf("write the report of %s as JSON: %w", r.Scenario, err)
	}
	return nil
}

// list is s, and an empty list in place of none.
func list[S ~[]E, E any](s S) S {
	if s == nil {
		return S{}
	}
	return s
}

// ReadJSON reads what [JSON] wrote. Fields that it does not know pass, so that
// an older program reads a newer report; a format with another meaning, other
// JSON and more than one document are errors, which name the line.
func ReadJSON(rd io.Reader) (*Report, error) {
	data, err := io.ReadAll(rd)
	if err != nil {
		return nil, fmt.Errorf("read a JSON report: %w", err)
	}
	d := document{Report: new(Report)}
	if err := json.Unmarshal(data, &d); err != nil {
		return nil, fmt.Errorf("read a JSON report: line %d: %w", lineOf(data, errorOffset(err)), err)
	}
	switch {
	case d.Report == nil || d.Format == 0:
		return nil, errors.New(`read a JSON report: it has no "format"; give a file written by holdfast play --json`)
	case d.Format != jsonFormat:
		return nil, fmt.Errorf("read a JSON report: its format is %d and this program reads format %d; use the version of holdfast that wrote it", d.Format, jsonFormat)
	}
	if err := d.check(); err != nil {
		return nil, fmt.Errorf("read a JSON report: %w", err)
	}
	return d.Report, nil
}

// errorOffset is where in its input a JSON error is, in bytes; 0 if unknown.
func errorOffset(err error) int64 {
	if s, ok := errors.AsType[*json.SyntaxError](err); ok {
		return s.Offset
	}
	if t, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return t.Offset
	}
	return 0
}

// lineOf is the number, from 1, of the line that holds the byte before offset.
func lineOf(data []byte, offset int64) int {
	offset = min(max(offset-1, 0), int64(len(data)))
	return 1 + bytes.Count(data[:offset], []byte{'\n'})
}
