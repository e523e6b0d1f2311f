package rules

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/holdfast-dev/holdfast/review/effect"
	"github.com/holdfast-dev/holdfast/review/witness"
)

// Confidence is how much of a finding rests on what the front end is sure of.
type Confidence string

// Confidence tiers. High: the written value derives from the read, on the same
// key. Medium: the act depends on the check through control flow, or the keys
// are equal only if two inputs are. Low: something unknown decides; shown with
// the notes only.
const (
	High   Confidence = "high"
	Medium Confidence = "medium"
	Low    Confidence = "low"
)

// Finding is one defect with its schedule.
type Finding struct {
	Rule       *Rule
	Leads      string // the rule of what a protection without effect lets through
	Severity   Severity
	Confidence Confidence
	Pos        effect.Pos
	Message    string
	Fix        string
	Witness    *witness.Witness
}

// Fingerprint stays the same when lines move: it is made of the rule, the file,
// the resource, the entry points and the statements of the race.
func (f *Finding) Fingerprint() string {
	parts := []string{f.Rule.ID, f.Pos.File}
	if on := f.Witness.On; on != nil {
		parts = append(parts, string(on.Kind)+":"+on.Name)
	}
	for _, a := range f.Witness.Actors {
		parts = append(parts, a.Entry.ID)
	}
	for _, s := range []*effect.Step{f.Witness.Read, f.Witness.Write} {
		if s != nil {
			parts = append(parts, string(s.Op)+" "+s.Mode+" "+s.Note)
		}
	}
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:12])
}

// Name is what people call the damaged thing.
func Name(on *effect.Resource) string {
	switch {
	case on == nil:
		return "it"
	case on.Name != "*" && len(on.Key) == 1 && on.Key[0].Val.Kind == effect.ConstValue:
		return on.Name + "[" + on.Key[0].Val.String() + "]"
	case on.Name != "*":
		return on.Name
	case len(on.Key) > 0:
		v := on.Key[0].Val
		if v.Kind == effect.ConstValue {
			return strings.Trim(v.Name, "\"")
		}
		return string(on.Kind) + " " + v.String()
	}
	return "the " + string(on.Kind)
}
