//go:build amd64 || arm64

package file

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// BenchmarkCall measures one call of a program that the filter traps and the gate
// lets pass, beside the same call without a gate and under strace. The figures
// are microseconds per call, with a path and with a descriptor.
func BenchmarkCall(b *testing.B) {
	report := func(b *testing.B, run func() string) {
		for b.Loop() {
			var byPath, byFD float64
			if _, err := fmt.Sscan(run(), &byPath, &byFD); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(byPath/1000, "µs/path")
			b.ReportMetric(byFD/1000, "µs/fd")
		}
	}
	c := role("bench")
	direct := func(b *testing.B, words ...string) string {
		cmd := exec.Command(words[0], append(words[1:], os.Args[0])...)
		cmd.Env = append(os.Environ(), c.env...)
		out, err := cmd.Output()
		if err != nil {
			b.Fatal(err)
		}
		return string(out)
	}
	b.Run("native", func(b *testing.B) { report(b, func() string { return direct(b, "/usr/bin/env") }) })
	for _, hold := range []bool{false, true} {
		name := map[bool]string{false: "gate, not holding", true: "gate, path decoded"}[hold]
		b.Run(name, func(b *testing.B) {
			w := newWorld(b, Config{})
			w.gate.Hold(hold)
			report(b, func() string {
				p := w.launch(c)
				<-p.exited
				return p.out.String()
			})
		})
	}
	b.Run("strace", func(b *testing.B) {
		if _, err := exec.LookPath("strace"); err != nil {
			b.Skip(err)
		}
		report(b, func() string { return direct(b, "strace", "-f", "-o", "/dev/null") })
	})
}
