package program

import (
	"os"
	"runtime"
	"runtime/debug"
)

const (
	// gcPercent is the GOGC that suits a live heap of a few MiB: more often collected costs no
	// processor time worth speaking of.
	gcPercent = 50
	// processors are enough for the traffic of one machine. The runtime keeps free memory for each, and
	// wakes idle ones to look for work: with 64 of them the program is 3 MiB larger.
	processors = 2
)

// Economize has the program take little of a worker. The environment (GOGC, GOMAXPROCS) goes before.
func Economize() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if os.Getenv("GOMAXPROCS") == "" && runtime.GOMAXPROCS(0) > processors {
		runtime.GOMAXPROCS(processors)
	}
}
