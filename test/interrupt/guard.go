package interrupt

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
)

// Guard starts something that the function it returns stops. When the program is told to end before, all that runs is
// stopped, what is starting as soon as it has, and the program ends. What did not start well is stopped, too.
// start and stop call neither Guard nor what it returned.
func Guard(start, stop func() error) (func() error, error) {
	watch()
	changing.RLock()
	defer changing.RUnlock()
	if err := start(); err != nil {
		return nil, errors.Join(err, stop())
	}
	g := &guarded{stop: stop}
	lock.Lock()
	defer lock.Unlock()
	running = append(running, g)
	return g.end, nil
}

type guarded struct{ stop func() error }

var (
	// changing is held for reading while something starts or stops, and for good by the end of the program.
	changing sync.RWMutex
	// lock is that of running.
	lock    sync.Mutex
	running []*guarded
)

func (g *guarded) end() error {
	changing.RLock()
	defer changing.RUnlock()
	lock.Lock()
	running = slices.DeleteFunc(running, func(other *guarded) bool { return other == g })
	lock.Unlock()
	return g.stop()
}

var watch = sync.OnceFunc(func() {
	told := notify()
	go func() {
		<-told
		changing.Lock()
		for _, g := range slices.Backward(running) {
			if err := g.stop(); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		}
		os.Exit(status)
	}()
})
