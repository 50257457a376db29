//go:build unix

package program

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// descriptors is how many file descriptors this process may have. Go raises the soft limit to the hard one at the start.
func descriptors() (uint64, error) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("read how many file descriptors this program may have: %w", err)
	}
	return limit.Cur, nil
}
