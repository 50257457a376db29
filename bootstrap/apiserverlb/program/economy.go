package program

import (
	"os"
	"runtime"
	"runtime/debug"
)

const (
	// gcPercent is the value of GOGC. With a live heap of a few MiB, frequent collections cost hardly any processor time.
	gcPercent = 50
	// processors is the value of GOMAXPROCS. It is enough for the traffic of one machine. Go keeps free memory for each
	// processor, and wakes idle ones: with 64 of them the program takes 3 MiB more.
	processors = 2
)

// Economize makes the program take little memory of a worker. GOGC and GOMAXPROCS in the environment take precedence.
func Economize() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if os.Getenv("GOMAXPROCS") == "" && runtime.GOMAXPROCS(0) > processors {
		runtime.GOMAXPROCS(processors)
	}
}
