package processes

import (
	"errors"
	"fmt"
	"syscall"
)

// Kill ends the processes of a container, given by its runtime's ID, as kill -9 does, and says how many
// there were.
func Kill(container string) (count int, err error) { return Signal(container, syscall.SIGKILL) }

// Signal sends a signal to the processes of a container, given by its runtime's ID, and says how many there were.
func Signal(container string, signal syscall.Signal) (count int, err error) {
	if container == "" {
		return 0, errors.New("there is no container to send a signal to")
	}
	found, err := Of([]string{container})
	if err != nil {
		return 0, err
	}
	for _, pid := range found[container] {
		switch err := syscall.Kill(pid, signal); {
		case errors.Is(err, errNoProcess):
		case err != nil:
			return count, fmt.Errorf("send process %d the signal %q: %w", pid, signal, err)
		default:
			count++
		}
	}
	return count, nil
}
