package rules

import (
	"fmt"

	"github.com/holdfast-dev/holdfast/review/witness"
)

// voidRules maps a protection without effect to its rule, the most telling
// first: what the source asks for and does not get stands above what it forgot.
func voidRules() []struct {
	kind witness.VoidKind
	rule string
} {
	return []struct {
		kind witness.VoidKind
		rule string
	}{
		{witness.VoidOption, "HF201"},
		{witness.VoidOutside, "HF202"},
		{witness.VoidVersion, "HF207"},
		{witness.VoidNoTx, "HF208"},
		{witness.VoidMissing, "HF203"},
		{witness.VoidEarly, "HF204"},
		{witness.VoidMutex, "HF205"},
		{witness.VoidZeroRows, "HF206"},
		{witness.VoidLockLate, "HF209"},
	}
}

// void looks for a protection on the way that had no effect. It explains an
// outcome without a serial order; deadlocks and crashes have their own reasons.
func void(w *witness.Witness, base *class) *class {
	if w.Kind != witness.NonSerial || base.rule == "HF190" || base.rule == "HF141" {
		return nil
	}
	for _, r := range voidRules() {
		for i := range w.Voids {
			v := &w.Voids[i]
			if v.Kind != r.kind {
				continue
			}
			return &class{rule: r.rule, at: v.Step, void: v, confidence: base.confidence,
				say: fmt.Sprintf("%s: %s", v.Why, base.say)}
		}
	}
	return nil
}
