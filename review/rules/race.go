package rules

import (
	"fmt"
	"strings"

	"github.com/holdfast-dev/holdfast/review/effect"
	"github.com/holdfast-dev/holdfast/review/witness"
)

// race tells apart what an outcome without a serial order is.
func race(w *witness.Witness) *class {
	if w.Kind == witness.Memory {
		return &class{rule: "HF170", at: w.Read, say: fmt.Sprintf("%s is looked at as if all processes shared it; %s in two processes", Name(w.On), who(w))}
	}
	if w.On == nil || w.Write == nil {
		return nil
	}
	if w.On.Kind == effect.VarKind {
		// Within one process this is the race detector's field, unless locks hide
		// it from that: then the section is split.
		if !locked(w) {
			return nil
		}
		confidence := Low // two sections that have nothing to do with each other
		if w.Derived {
			confidence = Medium
		}
		return &class{rule: "HF111", severity: ShouldFix, confidence: confidence,
			say: fmt.Sprintf("%s is read under a lock and changed under a later one: what was read is old by then (%s)", Name(w.On), who(w))}
	}
	if w.Read != nil && w.Read.On.Kind == effect.VarKind && w.Actors[0].Process == w.Actors[len(w.Actors)-1].Process {
		return nil // the same: memory that one process shares without a lock
	}
	if w.Write.Op == effect.Send {
		return &class{rule: "HF120", confidence: tier(w), say: fmt.Sprintf("%s is called twice with %s", Name(w.On), who(w))}
	}
	if shared := sharedTemp(w); shared != "" {
		return &class{rule: "HF141", say: fmt.Sprintf("with %s both write the same temporary file %s", who(w), shared)}
	}
	if w.Read == nil || !w.Derived && !w.Controls {
		return &class{rule: "HF190", confidence: Low, say: fmt.Sprintf("with %s the writes to %s mix", who(w), Name(w.On))}
	}
	if w.Derived {
		return lost(w)
	}
	return check(w)
}

func locked(w *witness.Witness) bool {
	for _, e := range w.Events {
		if e.Step != nil && e.Step.Op == effect.Lock {
			return true
		}
	}
	return false
}

func tier(w *witness.Witness) Confidence {
	if w.Derived {
		return High
	}
	return Medium
}

// sharedTemp says that both actors emptied one file that is then renamed.
func sharedTemp(w *witness.Witness) string {
	if w.On.Kind != effect.FileKind {
		return ""
	}
	from := ""
	for _, e := range w.Events {
		if e.Step != nil && e.Step.Op == effect.Rename && e.Step.On != nil {
			from = e.Step.On.String()
		}
	}
	emptied := map[int]bool{}
	for _, e := range w.Events {
		if e.Step != nil && e.Step.Op == effect.Write && e.Step.Mode == effect.Truncate && e.Step.On.String() == from {
			emptied[e.Actor] = true
		}
	}
	if from != "" && len(emptied) == 2 {
		return strings.TrimPrefix(from, "file:")
	}
	return ""
}

// lost is a lost update: the written value derives from what was read.
func lost(w *witness.Witness) *class {
	on := w.On
	c := &class{confidence: High, say: fmt.Sprintf("%s is computed from what was read and written back; with %s one change is lost", Name(on), who(w))}
	switch {
	case w.Write.Mode == effect.Insert || w.Write.Mode == effect.Create:
		c.rule, c.confidence = "HF110", Medium
		c.say = fmt.Sprintf("%s is made from what was read before; with %s both make it", Name(on), who(w))
	case transition(w):
		c.rule = "HF130"
		c.say = fmt.Sprintf("the state of %s is checked, then set; with %s both go on", Name(on), who(w))
	case on.Kind == effect.ObjectKind:
		c.rule = "HF103"
	case listChange(w):
		c.rule = "HF105"
		c.say = fmt.Sprintf("%s holds a list that is rewritten for each item; with %s one item is lost", Name(on), who(w))
	case on.Kind != effect.TableKind:
		c.rule = "HF102"
	case wholeRow(w):
		c.rule = "HF104"
		c.say = fmt.Sprintf("all columns of %s are saved from an earlier read; with %s the other's change is undone", Name(on), who(w))
	default:
		c.rule = "HF101"
	}
	return c
}

// check is an act that depends on what was read only through a condition.
func check(w *witness.Witness) *class {
	c := &class{confidence: Medium}
	name := Name(w.On)
	switch {
	case transition(w):
		c.rule = "HF130"
		c.say = fmt.Sprintf("the state of %s is checked, then set; with %s both go on", Name(w.Read.On), who(w))
	case w.Write.Mode == effect.Insert || w.Write.Mode == effect.Create:
		c.rule = "HF110"
		c.say = fmt.Sprintf("%s is made when it is not there yet; with %s both find nothing", name, who(w))
	case w.On.Kind == effect.FileKind && w.Read.On != nil && w.Read.On.String() != w.On.String():
		// A whole file that is written after a look at another one: which of two
		// runs wrote it last is nobody's loss, unless the two files belong together.
		c.rule, c.severity, c.confidence = "HF111", Note, Low
		c.say = fmt.Sprintf("%s is replaced after a look at %s, which may have changed since (%s)", name, Name(w.Read.On), who(w))
	default:
		c.rule = "HF111"
		c.say = fmt.Sprintf("%s is changed after a check that does not hold any more (%s)", name, who(w))
	}
	return c
}

// transition says that one of the actors sets a column of what was read to a
// constant, and that a condition compares this column with another one.
func transition(w *witness.Witness) bool {
	if w.Read == nil || w.Read.Bind == "" || w.Read.On == nil {
		return false
	}
	compared := map[string]bool{}
	for _, a := range w.Actors {
		a.Entry.Body.Walk(func(s *effect.Step) bool {
			if s.Op == effect.If && s.Val != nil {
				comparisons(*s.Val, compared)
			}
			return true
		})
	}
	hit := false
	for _, a := range w.Actors {
		a.Entry.Body.Walk(func(s *effect.Step) bool {
			if s.Op != effect.Write || s.On == nil || s.Mode == effect.Insert || s.On.Kind != w.Read.On.Kind || s.On.Name != w.Read.On.Name {
				return true
			}
			for _, set := range s.Set {
				hit = hit || set.Val.Kind == effect.ConstValue && compared[set.Col]
			}
			return !hit
		})
	}
	return hit
}

// comparisons collects the columns that are compared with a constant.
func comparisons(v effect.Value, cols map[string]bool) {
	if (v.Name == "==" || v.Name == "!=") && len(v.Args) == 2 {
		for i, a := range v.Args {
			if a.Kind == effect.PathValue && v.Args[1-i].Kind == effect.ConstValue {
				if dot := strings.LastIndexByte(a.Name, '.'); dot > 0 && a.Name[dot+1:] != "found" && a.Name[dot+1:] != "err" {
					cols[a.Name[dot+1:]] = true
				}
			}
		}
	}
	for _, a := range v.Args {
		comparisons(a, cols)
	}
}

// listChange says that the written value is the old one with an item more or
// less.
func listChange(w *witness.Witness) bool {
	hit := false
	look := func(s *effect.Step) {
		for _, a := range s.Set {
			hit = hit || hasListCall(a.Val)
		}
	}
	look(w.Write)
	for _, e := range w.Events {
		if e.Step != nil && e.Step.Op == effect.Write && e.Step.On != nil && e.Step.On.Kind == effect.FileKind {
			look(e.Step)
		}
		if e.Step != nil && e.Step.Op == effect.Read && e.Step.On != nil && e.Step.On.Content == "json" && w.On.Content == "list" {
			hit = true
		}
	}
	return hit
}

func hasListCall(v effect.Value) bool {
	if v.Kind == effect.ApplyValue {
		switch v.Name {
		case "append", "slices.Insert", "slices.Delete", "slices.DeleteFunc", "maps.Delete", "delete", "add", "remove":
			return true
		}
	}
	for _, a := range v.Args {
		if hasListCall(a) {
			return true
		}
	}
	return false
}

func wholeRow(w *witness.Witness) bool {
	for _, a := range w.Write.Set {
		if a.Col == "*" {
			return true
		}
	}
	return false
}
