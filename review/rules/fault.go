package rules

import (
	"fmt"
	"strings"

	"github.com/holdfast-dev/holdfast/review/effect"
	"github.com/holdfast-dev/holdfast/review/witness"
)

// permits reports whether a resource is one that can forbid something. A file that
// can not be read is usually a cache or a default, unless its name says otherwise.
func permits(r *effect.Resource) bool {
	if r == nil || r.Kind != effect.FileKind {
		return true
	}
	name := strings.ToLower(r.String())
	for _, w := range []string{"lock", "lease", "perm", "allow", "deny", "policy", "auth", "token", "revoked"} {
		if strings.Contains(name, w) {
			return true
		}
	}
	return false
}

// fault is about crashes, retries and errors of the surroundings.
func fault(w *witness.Witness) *class {
	name := Name(w.On)
	switch w.Kind {
	case witness.Torn:
		return torn(w)
	case witness.Lost:
		return gone(w)
	case witness.Twice:
		return twice(w)
	case witness.Swallowed:
		return &class{rule: "HF161", at: w.Other, confidence: High, say: fmt.Sprintf("a failed read of %s is taken for an empty one, and written over", name)}
	case witness.Permitted:
		if !permits(w.Other.On) {
			return nil
		}
		return &class{rule: "HF162", at: w.Other, say: fmt.Sprintf("when the check of %s fails, it is taken for a permission", Name(w.Other.On))}
	case witness.Undone:
		return &class{rule: "HF164", say: fmt.Sprintf("after an unknown outcome %s is deleted although it is in use", name)}
	case witness.Leftover:
		return &class{rule: "HF145", confidence: High, say: "the temporary file stays when a later step fails"}
	case witness.Ignored:
		return ignored(w)
	}
	return nil
}

func torn(w *witness.Witness) *class {
	name := Name(w.On)
	if len(w.Actors) == 2 && w.Write.Op == effect.Rename {
		return &class{rule: "HF141", say: fmt.Sprintf("with %s both write the same temporary file: %s is published half written", who(w), name)}
	}
	c := &class{rule: "HF140", confidence: High, say: fmt.Sprintf("%s is emptied and then filled: a crash in between leaves it empty or cut", name)}
	if len(w.Actors) == 2 {
		c.say = fmt.Sprintf("%s is emptied and then filled: a reader in between finds it empty or cut (%s)", name, who(w))
		for _, e := range w.Events {
			if e.Step != nil && e.Step.Op == effect.Write && e.Step.Mode == effect.Truncate {
				c.at = e.Step
			}
		}
	}
	return c
}

// gone is what was acknowledged and is not there after a crash.
func gone(w *witness.Witness) *class {
	if w.Write.Op == effect.Rename {
		if strings.Contains(w.Got, "folder") {
			return &class{rule: "HF143", confidence: High, say: fmt.Sprintf("the rename onto %s may be lost with the power: the folder is not flushed", Name(w.On))}
		}
		return &class{rule: "HF142", confidence: High, say: fmt.Sprintf("%s may be empty after a power failure: it is renamed before its content is flushed", Name(w.On))}
	}
	confidence := High
	if w.Write.On != nil && w.Write.On.Kind != effect.TopicKind {
		confidence = Low // an answer before the work is done may be what was wanted
	}
	return &class{rule: "HF160", confidence: confidence, say: "it is acknowledged before its work is stored: a crash in between loses it"}
}

func twice(w *witness.Witness) *class {
	c := &class{rule: "HF121", say: fmt.Sprintf("%s takes effect again when the entry is run again after a crash", Name(w.On))}
	if w.Actors[0].Entry.Retry == effect.RetryCaller {
		// A client may retry anything; without a broker's promise to do so this
		// is hardening.
		c.severity = Note
	}
	return c
}

// ignored is a failed step that is answered as success. For most writes somebody
// may have decided that they do not matter; a commit, a rename and the close of
// what is then renamed are the work itself.
func ignored(w *witness.Witness) *class {
	switch {
	case w.Write.Op == effect.Spawn:
		return &class{rule: "HF163", say: "an error in the goroutine goes nowhere, and success is answered"}
	case w.Write.Op == effect.Commit, w.Write.Op == effect.Rename:
		return &class{rule: "HF144", confidence: High, say: fmt.Sprintf("the error of the %s is dropped, and success is answered", w.Write.Op)}
	case w.Write.OnErr == effect.OnBind:
		return nil
	}
	return &class{rule: "HF144", severity: Note, say: fmt.Sprintf("the error of the %s of %s is dropped, and success is answered", w.Write.Op, Name(w.On))}
}
