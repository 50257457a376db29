//go:build unix

package program

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// descriptors is how many file descriptors this process may have. Go has raised what is soft to what is hard.
func descriptors() (uint64, error) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("ask how many file descriptors this program may have: %w", err)
	}
	return limit.Cur, nil
}
