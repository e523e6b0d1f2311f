package review

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/holdfast-dev/holdfast/review/effect"
	"github.com/holdfast-dev/holdfast/review/report"
)

// baseline is the file of known findings. Rule, place and message are for the
// reader; the fingerprint decides.
type baseline struct {
	Format   int     `json:"format"`
	Findings []known `json:"findings"`
}

type known struct {
	Fingerprint string     `json:"fingerprint"`
	Rule        string     `json:"rule"`
	Pos         effect.Pos `json:"pos"`
	Message     string     `json:"message"`
}

const baselineFormat = 1

// BaselineError says that a baseline file can not be used.
type BaselineError struct {
	File string
	Err  error
}

func (e *BaselineError) Error() string {
	return fmt.Sprintf("baseline %s can not be read: %v; write a new one with --write-baseline", e.File, e.Err)
}

func (e *BaselineError) Unwrap() error { return e.Err }

func readBaseline(file string) (map[string]bool, error) {
	if file == "" {
		return nil, nil
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, &BaselineError{file, err}
	}
	var f baseline
	if err := json.Unmarshal(b, &f); err != nil {
		return nil, &BaselineError{file, err}
	}
	if f.Format != baselineFormat {
		return nil, &BaselineError{file, fmt.Errorf("format %d, and this program knows %d", f.Format, baselineFormat)}
	}
	out := map[string]bool{}
	for _, k := range f.Findings {
		out[k.Fingerprint] = true
	}
	return out, nil
}

// WriteBaseline writes the findings of a report as known ones.
func WriteBaseline(w io.Writer, r *report.Report) error {
	f := baseline{Format: baselineFormat, Findings: []known{}}
	for _, x := range r.Findings {
		f.Findings = append(f.Findings, known{x.Fingerprint(), x.Rule.ID, x.Pos, x.Message})
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(f)
}
