package machine

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// claimFile is locked by the benchmark that runs, and has its process number.
const claimFile = "/run/kok-bench.lock"

// Claim makes this program the only benchmark of the machine until it ends or releases the claim: two at once would measure
// each other, and each begins by removing what an interrupted one left.
func Claim() (release func(), err error) { return claim(claimFile) }

func claim(path string) (release func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make sure that no other benchmark runs: %w", err)
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		defer file.Close() //nolint:errcheck // only read
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		process, _ := io.ReadAll(file)
		return nil, fmt.Errorf("another benchmark runs on this machine, as process %s: wait until it ends", bytes.TrimSpace(process))
	}
	err = file.Truncate(0)
	if err == nil {
		_, err = fmt.Fprintln(file, os.Getpid())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("write %s: %w", path, err), file.Close())
	}
	return func() { _ = file.Close() }, nil
}
