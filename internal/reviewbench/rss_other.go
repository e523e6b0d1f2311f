//go:build !linux

package reviewbench

import "os"

// maxRSS is not known: other systems count in other units.
func maxRSS(*os.ProcessState) int64 { return 0 }
