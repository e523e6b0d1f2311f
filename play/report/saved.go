package report

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/holdfast-dev/holdfast/play/explore"
	"github.com/holdfast-dev/holdfast/play/oracle"
)

// SavedFormat is the number of the format of saved schedules that this program
// writes, and the only one that it reads.
const SavedFormat = 1

// Saved is the schedule of a finding as it is kept in a file: all that is
// needed to play it again and to tell whether the same came out.
type Saved struct {
	Format   int    `json:"format"`
	Holdfast string `json:"holdfast"` // version of the program that wrote it
	// Scenario is the path of the scenario file, with slashes, relative to the
	// folder of the saved file or absolute.
	Scenario string      `json:"scenario"`
	Name     string      `json:"name"` // of the scenario
	Kind     oracle.Kind `json:"kind"`
	Sentence string      `json:"sentence"`
	Pass     string      `json:"pass"`
	// Inside: statements stop after their snapshots and take two choices each.
	Inside   bool             `json:"inside_one_statement"`
	Schedule explore.Schedule `json:"schedule"`
	// Fault is what is done to an actor; the schedule follows from it.
	Fault *Fault `json:"fault,omitempty"`
	// Steps are the labels of the steps, one for each choice. A replay that
	// meets another label has diverged.
	Steps []string `json:"steps"`
	// Outcome is what came out and is expected again.
	Outcome oracle.Outcome `json:"outcome"`
}

// SavedError says what is wrong with a saved schedule.
type SavedError struct {
	File    string
	Line    int // from 1; 0 where the trouble is not in a line
	Problem string
	Err     error // the cause, where there is one
}

func (e *SavedError) Error() string {
	at := e.File
	if e.Line > 0 {
		at = fmt.Sprintf("%s:%d", e.File, e.Line)
	}
	return fmt.Sprintf("%s: %s", at, e.Problem)
}

func (e *SavedError) Unwrap() error { return e.Err }

// ScenarioFile is the path of the scenario for a Saved read from path.
func (s *Saved) ScenarioFile(path string) string {
	scenario := filepath.FromSlash(s.Scenario)
	if filepath.IsAbs(scenario) {
		return scenario
	}
	return filepath.Join(filepath.Dir(path), scenario)
}

// RelativeScenario is what [Saved.Scenario] must be for a schedule saved at
// path, so that both files can be moved or checked in together.
func RelativeScenario(path, scenario string) (string, error) {
	dir, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return "", fmt.Errorf("find the folder of %s: %w", path, err)
	}
	file, err := filepath.Abs(scenario)
	if err != nil {
		return "", fmt.Errorf("find the scenario %s: %w", scenario, err)
	}
	if rel, err := filepath.Rel(dir, file); err == nil {
		return filepath.ToSlash(rel), nil
	}
	return filepath.ToSlash(file), nil // another volume
}

// check says what makes s useless for a replay, and in which field.
func (s *Saved) check() (field, problem string) {
	switch {
	case s.Format != SavedFormat:
		return "format", fmt.Sprintf("its format is %d and this program reads format %d; use the version of holdfast that wrote it", s.Format, SavedFormat)
	case s.Scenario == "":
		return "scenario", `"scenario" is missing: it names the scenario file, relative to this one`
	case !slices.Contains(kinds(), s.Kind):
		return "kind", fmt.Sprintf("unknown kind %q: use one of %q", s.Kind, kinds())
	case len(s.Schedule) == 0:
		return "schedule", `"schedule" is empty: there is nothing to replay`
	case len(s.Steps) != len(s.Schedule):
		return "steps", fmt.Sprintf(`"steps" has %d labels and "schedule" has %d choices: one label is needed for each choice`, len(s.Steps), len(s.Schedule))
	}
	if i := slices.IndexFunc(s.Schedule, func(a int) bool { return a < 0 }); i >= 0 {
		return "schedule", fmt.Sprintf(`choice %d of "schedule" is %d: actors are numbered from 0`, i+1, s.Schedule[i])
	}
	return "", ""
}

func kinds() []oracle.Kind {
	return []oracle.Kind{oracle.Deadlock, oracle.LostUpdate, oracle.DuplicateEffect, oracle.PartialEffect,
		oracle.ServerError, oracle.WriteSkew, oracle.Invariant, oracle.TornFile, oracle.TempCollision,
		oracle.LostAcknowledged, oracle.StaleLock, oracle.LeftOver}
}

// WriteSaved writes s to path, in a folder that exists. A Format of 0 becomes
// [SavedFormat]. After a crash or a power loss at any moment there is either
// the whole new file or what was there before: the data is synced before the
// rename, or an empty file could take the name, and the folder after it, or
// the name could be lost.
func WriteSaved(path string, s Saved) error {
	if s.Format == 0 {
		s.Format = SavedFormat
	}
	if _, problem := s.check(); problem != "" {
		return &SavedError{File: path, Problem: "not written: " + problem}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		return &SavedError{File: path, Problem: "not written: " + err.Error(), Err: err}
	}
	if err := writeDurably(path, b.Bytes()); err != nil {
		return &SavedError{File: path, Problem: fmt.Sprintf("not written: %v; the schedule is in the report", err), Err: err}
	}
	return nil
}

func writeDurably(path string, data []byte) (err error) {
	dir := filepath.Dir(path)
	temp := filepath.Join(dir, "."+filepath.Base(path)+"."+rand.Text()+".tmp")
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	return syncFolder(dir)
}

func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// ReadSaved reads what [WriteSaved] wrote. Files may have been edited by hand,
// so nothing that it does not know passes: a misspelt field would otherwise
// be a schedule that silently replays something else. Errors are [*SavedError]
// with file and line, or wrap the file system's.
func ReadSaved(path string) (*Saved, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read a saved schedule: %w", err)
	}
	// The format comes first: of another one the fields mean nothing.
	var head struct {
		Format *int `json:"format"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return nil, savedProblem(path, data, err)
	}
	if head.Format == nil {
		return nil, &SavedError{File: path, Line: 1, Problem: `it has no "format", so it is no saved schedule; holdfast play writes one for each finding`}
	}
	lines := map[string]int{}
	s := Saved{Format: *head.Format}
	if s.Format != SavedFormat {
		knownFields(data, nil, lines)
	} else if err := json.Unmarshal(data, &s); err != nil {
		return nil, savedProblem(path, data, err)
	} else if unknown := knownFields(data, &s, lines); unknown != nil {
		return nil, &SavedError{File: path, Line: unknown.line, Problem: unknown.Error(), Err: unknown}
	}
	if field, problem := s.check(); problem != "" {
		return nil, &SavedError{File: path, Line: max(lines[field], 1), Problem: problem}
	}
	return &s, nil
}

// savedProblem words an error of encoding/json for whoever edits the file.
func savedProblem(path string, data []byte, err error) error {
	problem := "it is no JSON: " + err.Error()
	if t, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		problem = fmt.Sprintf("%q can not be a %s", t.Field, t.Value)
	}
	return &SavedError{File: path, Line: lineOf(data, errorOffset(err)), Problem: problem, Err: err}
}
