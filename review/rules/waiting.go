package rules

import (
	"fmt"

	"github.com/holdfast-dev/holdfast/review/effect"
	"github.com/holdfast-dev/holdfast/review/witness"
)

// waiting is about locks: deadlocks, calls under them, loops around them, and
// locks that are lost.
func waiting(w *witness.Witness) *class {
	switch w.Kind {
	case witness.LostLock:
		return &class{rule: "HF150", say: fmt.Sprintf("%s is written under a lock that another has taken by its age meanwhile", Name(w.On))}
	case witness.Endless:
		return &class{rule: "HF165", say: "a refused write is tried again without a bound, and no deadline is looked at"}
	case witness.Hang:
		rule, under := "HF151", "a lock"
		if w.Other != nil && w.Other.On != nil && w.Other.On.Kind == effect.TableKind {
			rule, under = "HF152", "a row lock of an open transaction"
		}
		return &class{rule: rule, say: fmt.Sprintf("%s is called under %s: others wait as long as it takes to answer", Name(w.Write.On), under)}
	}
	if len(w.Actors) == 1 {
		return &class{rule: "HF155", say: fmt.Sprintf("the statement on %s waits for a row that its own transaction has locked", Name(w.On))}
	}
	if w.Write == nil {
		return nil
	}
	if pool(w) {
		return &class{rule: "HF154", say: fmt.Sprintf("the statement on %s needs a second connection while the transaction holds the first; under load all wait for all", Name(w.On))}
	}
	return &class{rule: "HF153", say: fmt.Sprintf("%s: they take their locks in different orders, and wait for each other", who(w))}
}

// pool says that a deadlock is about connections: the waiting steps run beside
// the open transactions.
func pool(w *witness.Witness) bool {
	for _, s := range []*effect.Step{w.Write, w.Other} {
		if s == nil || s.Tx != "" || s.Op == effect.Lock || s.On == nil || s.On.Kind != effect.TableKind {
			return false
		}
	}
	return true
}
