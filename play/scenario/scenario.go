// Package scenario reads a scenario file: which application to run, which
// requests to send at once, and what to compare.
//
// # Model
//
// A scenario is one YAML document that becomes one [Scenario]. [Load] reads a
// file and also looks at what it names (SQL files, environment variables);
// [Parse] looks at the text alone. Texts may have placeholders such as ${port}
// whose values are known only later; they are checked by name when the file is
// read and replaced by [Expand] and the methods that return what package app
// needs. scenario.schema.json beside this file is the same format as a JSON
// Schema; a test keeps the two equal.
//
// # Promise
//
// Reading is strict: an unknown or repeated key, a missing one, a value of the
// wrong type, a bad duration, a request line or capture that can not be parsed,
// and a placeholder that nothing gives a value to are errors. Each is an
// *[Error] with file, line, column and key, and all of a file are reported
// together in the order of their lines.
//
// # Limits
//
// YAML merge keys (<<) and more than one document are refused. Placeholders are
// not looked for in SQL given in schema and seed, where $$ is a quote of SQL.
// The position of an error is where its value begins, not the place inside a
// text of several lines.
package scenario

import (
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/play/app"
)

// The yaml tag of a field is its key in the file; "required" keys must be there.
// The tags min and max bound a number. Fields without a tag are not in the file.

// Scenario is one scenario file with its defaults filled in.
type Scenario struct {
	// File is the name as given to Load or Parse, Dir its folder.
	File, Dir string

	// Name is for reports; the default is the file's name without its ending.
	Name        string `yaml:"name"`
	Description string `yaml:"description"`
	// Build is run once before anything else, in the scenario's folder: for
	// programs that requests run. An application has a build of its own.
	Build Words `yaml:"build"`
	// Application may be left out when each request runs a program.
	Application Application `yaml:"application"`
	// Postgres is nil when there is no PostgreSQL gate.
	Postgres *Postgres `yaml:"postgres"`
	// Files is nil when there is no file gate.
	Files *Files `yaml:"files"`
	// Schedules are the kinds of schedules that are played; empty: all that the
	// gates of the scenario can play.
	Schedules Schedules `yaml:"schedules"`
	// Pause is how long a paused actor is held, as the others see it: longer than
	// the leases and time-outs of the application. 0: no pauses.
	Pause time.Duration `yaml:"pause"`
	// PauseWaits: a pause lasts in real time. Else the files that are there
	// become older by Pause, which is as good where age is judged by the time of
	// a file's last change.
	PauseWaits bool `yaml:"pause_waits"`
	// Setup are sent once, in order, before the start state is recorded.
	Setup []Setup `yaml:"setup"`
	// Requests are sent at once. Actors gives them one by one.
	Requests   []Request   `yaml:"requests,required"`
	Observe    Observe     `yaml:"observe"`
	Noise      Noise       `yaml:"noise"`
	Invariants []Invariant `yaml:"invariants"`
	Budgets    Budgets     `yaml:"budgets"`
}

// Application is how the program is built and run.
type Application struct {
	// Build is run once before the first start; empty for none.
	Build   Words `yaml:"build"`
	Command Words `yaml:"command,required"`
	// Dir is the working directory of both, relative to the scenario file.
	Dir string `yaml:"dir"`
	// Env is set on top of the caller's environment.
	Env       map[string]string `yaml:"env"`
	Instances int               `yaml:"instances" min:"1" max:"16"`
	Ready     Ready             `yaml:"ready"`
	Restart   Restart           `yaml:"restart"`
}

// Words is a command line: in the file a text, split as [app.SplitWords] does,
// or a list of words.
type Words []string

// Ready is when an instance counts as started. In the file it is a request line
// or the three keys.
type Ready struct {
	// Request is empty when it is enough that the port accepts connections.
	Request Line          `yaml:"request,required"`
	Status  int           `yaml:"status" min:"100" max:"599"`
	Timeout time.Duration `yaml:"timeout"`
}

// Restart is when a run gets fresh processes.
type Restart string

const (
	// RestartOnDoubt keeps the processes from run to run, and replaces them
	// after a run that did not end well.
	RestartOnDoubt Restart = "on-doubt"
	// RestartAlways gives each run fresh processes: for an application that
	// keeps state in its memory.
	RestartAlways Restart = "always"
)

// Postgres is the database behind the PostgreSQL gate.
type Postgres struct {
	// Server is the URL of a server to use; empty for a throwaway one.
	Server string `yaml:"server"`
	// Database is the name of the database to create; empty for a default.
	Database string `yaml:"database"`
	// Schema and Seed are run, in order, before the application starts.
	Schema SQLs `yaml:"schema"`
	Seed   SQLs `yaml:"seed"`
	// TLS: the gate speaks TLS with a certificate of the CA in ${postgres.ca}.
	TLS bool `yaml:"tls"`
}

// Files is a directory behind the file gate. It is made anew for each play, and
// its name is ${files.dir}.
type Files struct {
	// Seed are the files of the start state: their content by path, relative to
	// the directory. Paths that end in a slash are directories.
	Seed map[string]string `yaml:"seed"`
	// Ignore are patterns, as in path.Match, for paths or last elements of paths
	// that are not compared and not restored.
	Ignore []string `yaml:"ignore"`
	// Random are regular expressions for random parts of file names, beside the
	// usual ones.
	Random []string `yaml:"random"`
	// Power is what the file system promises; see package power.
	Power PowerModel `yaml:"power"`
}

// PowerModel is what a file system promises of what is on the disk.
type PowerModel string

const (
	// PowerOrdered keeps the order of directory operations and of the writes to
	// one file, as journaling file systems do.
	PowerOrdered PowerModel = "ordered"
	// PowerWeak keeps no order but that of a sync, as POSIX allows.
	PowerWeak PowerModel = "weak"
)

// ScheduleKind is a kind of schedules.
type ScheduleKind string

// The kinds of schedules.
const (
	Interleave ScheduleKind = "interleave"
	Pause      ScheduleKind = "pause"
	Crash      ScheduleKind = "crash"
	PowerLoss  ScheduleKind = "power-loss"
	Retry      ScheduleKind = "retry"
)

// ScheduleKinds are all kinds, in the order in which they are played.
func ScheduleKinds() []ScheduleKind {
	return []ScheduleKind{Interleave, Pause, Crash, PowerLoss, Retry}
}

// Schedules is a list of kinds of schedules; in the file one kind or a list.
type Schedules []ScheduleKind

// Plays reports whether schedules of a kind are to be played.
func (s *Scenario) Plays(k ScheduleKind) bool {
	if len(s.Schedules) > 0 {
		return slices.Contains(s.Schedules, k)
	}
	switch {
	case k == Interleave:
		return true
	case s.Files == nil:
		return false
	case k == Pause:
		return s.Pause > 0
	case k == Retry:
		return slices.ContainsFunc(s.Requests, func(r Request) bool { return r.Retry })
	}
	return true
}

// Choose replaces the kinds of schedules that the scenario names. The error says
// what the scenario lacks for a kind.
func (s *Scenario) Choose(kinds []string) error {
	var chosen Schedules
	for _, name := range kinds {
		k := ScheduleKind(name)
		if !slices.Contains(ScheduleKinds(), k) {
			return fmt.Errorf("unknown kind of schedules %q: use some of %v", name, ScheduleKinds())
		}
		if why := s.lacks(k); why != "" {
			return fmt.Errorf("%s: schedules of the kind %s can not be played: %s", s.File, k, why)
		}
		chosen = append(chosen, k)
	}
	s.Schedules = chosen
	return nil
}

// lacks says why schedules of a kind can not be played; empty when they can.
func (s *Scenario) lacks(k ScheduleKind) string {
	switch {
	case k == Pause && s.Pause <= 0:
		return "nothing says how long a pause is: add the key pause, longer than the leases and time-outs of the application"
	case k == PowerLoss && s.Files == nil:
		return "power losses are played on files only: the scenario has no files section, and of a database it is the server's matter"
	case k == Retry && !slices.ContainsFunc(s.Requests, func(r Request) bool { return r.Retry }):
		return "no request is sent again: add retry: true to those that are"
	}
	return ""
}

// SQL is a piece of SQL or the name of a file with SQL. In the file both are a
// text; one with a blank, a line end or a semicolon is SQL.
type SQL struct {
	File string // relative to the scenario file; may have placeholders
	Text string
}

// SQLs is one SQL or a list of them.
type SQLs []SQL

// HTTP is what all requests have in common. At most one of JSON, Body and Form
// is given.
type HTTP struct {
	Request Line              `yaml:"request"`
	Headers map[string]string `yaml:"headers"`
	Cookies map[string]string `yaml:"cookies"`
	JSON    JSON              `yaml:"json"`
	Body    *string           `yaml:"body"`
	Form    map[string]string `yaml:"form"`
}

// Line is a request line: "POST /accounts/${account}/withdraw".
type Line struct{ Method, Path string }

func (l Line) String() string { return l.Method + " " + l.Path }

// JSON is a body as compact JSON text, its keys in the order of the file. It
// may have placeholders inside strings.
type JSON string

// Setup is one request of the set-up, or one program.
type Setup struct {
	HTTP `yaml:",inline"`
	// Run is a program to run instead, on files. It must exit with 0.
	Run Words             `yaml:"run"`
	Env map[string]string `yaml:"env"`
	// Expect is the status it must be answered with; 0 is any below 400.
	Expect int `yaml:"expect" min:"100" max:"599"`
	// Capture are values to take from the answer, by the name of the
	// placeholder that stands for them from then on.
	Capture Captures `yaml:"capture"`
}

// Accepts reports whether the set-up may go on after an answer with this status.
func (s Setup) Accepts(status int) bool {
	if s.Expect != 0 {
		return status == s.Expect
	}
	return status < 400
}

// Captures are sources by placeholder name.
type Captures map[string]app.Source

// Request is one concurrent request, or several equal ones: an HTTP request, or
// a program that is run.
type Request struct {
	Name string `yaml:"name"`
	HTTP `yaml:",inline"`
	// Run is the program's command line. Its exit status and its standard output
	// are the answer.
	Run Words `yaml:"run"`
	// Env is set for the program, on top of the caller's environment.
	Env map[string]string `yaml:"env"`
	// Retry: whoever sends it sends it again when no answer comes.
	Retry bool `yaml:"retry"`
	// Instance is the number of the instance it is sent to; nil: spread.
	Instance *int `yaml:"instance" min:"0"`
	// Times is how many actors send it.
	Times int `yaml:"times" min:"1" max:"4"`
}

// Observe is what is compared after a run.
type Observe struct {
	// Tables to look at; empty is all.
	Tables []string `yaml:"tables"`
	// Ignore are tables ("audit") and columns ("accounts.updated_at").
	Ignore []string `yaml:"ignore"`
	// Responses: the answers are compared as well.
	Responses bool `yaml:"responses"`
	// Headers are the compared headers of the answers.
	Headers []string `yaml:"headers"`
}

// Noise says what is known to differ from run to run, where two equal serial
// runs do not show it.
type Noise struct {
	// Columns ("accounts.note") are not compared.
	Columns []string `yaml:"columns"`
	// JSON are places in answers ("$.request_id") that are not compared.
	JSON []string `yaml:"json"`
	// IDs are columns with generated names, Times columns with moments.
	IDs   []string `yaml:"ids"`
	Times []string `yaml:"times"`
}

// Invariant is something that must hold after every run: a query whose one
// value is true, or a request that is answered with a status.
type Invariant struct {
	Name    string `yaml:"name,required"`
	SQL     string `yaml:"sql"`
	Request Line   `yaml:"request"`
	Expect  int    `yaml:"expect" min:"100" max:"599"`
}

// Budgets bound the search.
type Budgets struct {
	// Schedules is the largest number of runs of one search.
	Schedules int `yaml:"schedules" min:"1"`
	// Time is the longest time of all searches together.
	Time time.Duration `yaml:"time"`
	// Step and Run are the longest times of one step and one run; what takes
	// longer makes the run inconclusive.
	Step time.Duration `yaml:"step"`
	Run  time.Duration `yaml:"run"`
}

// Actor is one sender of one request, or runner of one program.
type Actor struct {
	Name     string
	Instance int
	HTTP     HTTP
	Run      Words
	Env      map[string]string
	Retry    bool
}

// Actors lists who sends what, a request with times: n as n actors. An actor
// without a name is "A", "B", ... by its place. Instances are given in turn to
// those that name none.
func (s *Scenario) Actors() []Actor {
	var actors []Actor
	for _, r := range s.Requests {
		for n := range r.Times {
			i := len(actors)
			a := Actor{Name: r.Name, Instance: i % s.Application.Instances, HTTP: r.HTTP, Run: r.Run, Env: r.Env, Retry: r.Retry}
			switch {
			case r.Name == "":
				a.Name = string(rune('A' + i))
			case r.Times > 1:
				a.Name = fmt.Sprintf("%s (%d)", r.Name, n+1)
			}
			if r.Instance != nil {
				a.Instance = *r.Instance
			}
			actors = append(actors, a)
		}
	}
	return actors
}

// Path resolves a file name in the scenario, which is relative to its folder.
func (s *Scenario) Path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(s.Dir, name)
}

// minActors and maxActors bound the requests that are sent at once. With more
// than four the schedules are too many to be searched.
const minActors, maxActors = 2, 4

// blank is a scenario with those defaults that differ from Go's zero values.
func blank(file string) *Scenario {
	return &Scenario{
		File:    file,
		Dir:     filepath.Dir(file),
		Observe: Observe{Responses: true, Headers: []string{"Location", "ETag"}},
	}
}

// fill sets the defaults of what was not given.
func (s *Scenario) fill() {
	if s.Name == "" {
		base := filepath.Base(s.File)
		s.Name = base[:len(base)-len(filepath.Ext(base))]
	}
	a := &s.Application
	orDefault(&a.Dir, ".")
	orDefault(&a.Instances, 1)
	if s.Files != nil {
		// What a process keeps in its memory of a file may be of the last run.
		orDefault(&a.Restart, RestartAlways)
		orDefault(&s.Files.Power, PowerOrdered)
	}
	orDefault(&a.Restart, RestartOnDoubt)
	orDefault(&a.Ready.Status, 200)
	orDefault(&a.Ready.Timeout, 30*time.Second)
	for i := range s.Requests {
		orDefault(&s.Requests[i].Times, 1)
	}
	for i := range s.Invariants {
		if s.Invariants[i].Request != (Line{}) {
			orDefault(&s.Invariants[i].Expect, 200)
		}
	}
	b := &s.Budgets
	orDefault(&b.Schedules, 10_000)
	orDefault(&b.Time, 60*time.Second)
	orDefault(&b.Step, 2*time.Second)
	orDefault(&b.Run, 10*time.Second)
}

func orDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}
