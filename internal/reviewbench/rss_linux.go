package reviewbench

import (
	"os"
	"syscall"
)

// maxRSS is the largest resident set of a process that has ended, in KiB.
func maxRSS(p *os.ProcessState) int64 {
	if u, ok := p.SysUsage().(*syscall.Rusage); ok {
		return u.Maxrss
	}
	return 0
}
