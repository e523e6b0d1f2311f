package report

import (
	"encoding/json"
	"io"

	"github.com/holdfast-dev/holdfast/review/effect"
	"github.com/holdfast-dev/holdfast/review/front"
	"github.com/holdfast-dev/holdfast/review/rules"
)

// jsonReport is the JSON form. Its field names are a promise.
type jsonReport struct {
	Version   string          `json:"version"`
	Module    string          `json:"module,omitempty"`
	Verdict   string          `json:"verdict"`
	Findings  []jsonFinding   `json:"findings"`
	Paths     []Path          `json:"paths"`
	Problems  []front.Problem `json:"problems,omitempty"`
	Bad       []BadIgnore     `json:"badIgnores,omitempty"`
	Baselined int             `json:"baselined,omitempty"`
	Ignored   int             `json:"ignored,omitempty"`
	Entries   int             `json:"entries"`
	Diff      string          `json:"diff,omitempty"`
}

type jsonFinding struct {
	Rule        *rules.Rule      `json:"rule"`
	Leads       string           `json:"leads,omitempty"`
	Severity    rules.Severity   `json:"severity"`
	Confidence  rules.Confidence `json:"confidence"`
	Pos         effect.Pos       `json:"pos"`
	Message     string           `json:"message"`
	Fix         string           `json:"fix"`
	Fingerprint string           `json:"fingerprint"`
	Removed     string           `json:"removedProtection,omitempty"`
	Kind        string           `json:"kind"`
	Actors      []jsonActor      `json:"actors"`
	Schedule    []jsonStep       `json:"schedule"`
	Right       []string         `json:"right,omitempty"`
	Wrong       string           `json:"wrong"`
}

type jsonActor struct {
	Name    string     `json:"name"`
	Entry   string     `json:"entry"`
	Kind    string     `json:"kind"`
	Pos     effect.Pos `json:"pos"`
	Process int        `json:"process"`
}

type jsonStep struct {
	Actor  string       `json:"actor"`
	Pos    *effect.Pos  `json:"pos,omitempty"`
	Via    []effect.Pos `json:"via,omitempty"`
	What   string       `json:"what"`
	Result string       `json:"result,omitempty"`
	Fault  bool         `json:"fault,omitempty"`
}

// JSON writes the report as JSON.
func JSON(w io.Writer, r *Report) error {
	out := jsonReport{Version: r.Version, Module: r.Module, Verdict: r.Verdict(), Findings: []jsonFinding{}, Paths: r.Paths, Problems: r.Problems,
		Bad: r.Bad, Baselined: r.Baselined, Ignored: r.Ignored, Entries: r.Entries, Diff: r.Diff}
	for _, f := range r.Findings {
		out.Findings = append(out.Findings, toJSON(f, r.Removed[f.Fingerprint()]))
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(out)
}

func toJSON(f *rules.Finding, removed string) jsonFinding {
	j := jsonFinding{Rule: f.Rule, Leads: f.Leads, Severity: f.Severity, Confidence: f.Confidence, Pos: f.Pos, Message: short(people(f.Message), maxOutcome),
		Fix: f.Fix, Fingerprint: f.Fingerprint(), Removed: removed, Kind: string(f.Witness.Kind), Wrong: short(people(f.Witness.Got), maxOutcome)}
	for _, a := range f.Witness.Actors {
		j.Actors = append(j.Actors, jsonActor{a.Name, a.Entry.Title(), string(a.Entry.Kind), a.Entry.Pos, a.Process})
	}
	for i, l := range lines(f.Witness) {
		s := jsonStep{Actor: f.Witness.Actors[l.actor].Name, What: l.what, Result: l.then, Fault: l.fault}
		if st := f.Witness.Events[i].Step; st != nil {
			s.Pos, s.Via = &st.Pos, st.Via
		}
		j.Schedule = append(j.Schedule, s)
	}
	for _, e := range f.Witness.Expected {
		j.Right = append(j.Right, short(people(e), maxOutcome))
	}
	return j
}
