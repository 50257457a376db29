package program

import (
	"runtime"
	"runtime/debug"
	"testing"
)

func TestTheProgramIsMadeForAMachineThatHasOtherWork(t *testing.T) {
	for name, test := range map[string]struct {
		environment map[string]string
		processors  int
		wantGC      int
		want        int
	}{
		"a large machine":           {map[string]string{}, 64, gcPercent, processors},
		"a small machine":           {map[string]string{}, 2, gcPercent, 2},
		"what is set from outside":  {map[string]string{"GOGC": "200", "GOMAXPROCS": "8"}, 8, 200, 8},
		"only the memory, likewise": {map[string]string{"GOGC": "200"}, 8, 200, processors},
	} {
		t.Run(name, func(t *testing.T) {
			for _, variable := range []string{"GOGC", "GOMAXPROCS"} {
				t.Setenv(variable, test.environment[variable])
			}
			processorsBefore, gcBefore := runtime.GOMAXPROCS(test.processors), debug.SetGCPercent(200)
			defer func() {
				runtime.GOMAXPROCS(processorsBefore)
				debug.SetGCPercent(gcBefore)
			}()
			Economize()
			if got := runtime.GOMAXPROCS(0); got != test.want {
				t.Errorf("%d processors are used, want %d", got, test.want)
			}
			if got := debug.SetGCPercent(100); got != test.wantGC {
				t.Errorf("GOGC is %d, want %d", got, test.wantGC)
			}
		})
	}
}
