package host

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// RunTerminal runs a command in the host on a terminal of its own, joined to the caller's.
func (h *Host) RunTerminal(ctx context.Context, stdin, stdout *os.File, argv ...string) error {
	r, err := h.loadRun()
	if err != nil {
		return err
	}
	master, slave, err := openTerminal(filepath.Join("/proc", strconv.Itoa(r.Init.PID), "root/dev/pts"))
	if err != nil {
		return fmt.Errorf("host %s (is it powered on?): %w", h.Name, err)
	}
	defer master.Close() //nolint:errcheck // ends the copying
	before, err := term.MakeRaw(int(stdin.Fd()))
	if err != nil {
		return fmt.Errorf("set the terminal: %w", err)
	}
	defer term.Restore(int(stdin.Fd()), before) //nolint:errcheck // nothing left to do about it
	resize := func() {
		if size, err := unix.IoctlGetWinsize(int(stdin.Fd()), unix.TIOCGWINSZ); err == nil {
			_ = unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, size)
		}
	}
	resize()
	changes := make(chan os.Signal, 1)
	signal.Notify(changes, unix.SIGWINCH)
	defer signal.Stop(changes)
	go func() {
		for range changes {
			resize()
		}
	}()
	go func() { _, _ = io.Copy(master, stdin) }()
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		_, _ = io.Copy(stdout, master) // ends with an error when the last user of the terminal ends
	}()
	err = h.Run(ctx, slave, slave, slave, append([]string{"setsid", "--ctty", "--wait"}, argv...)...)
	_ = slave.Close()
	<-drained
	return err
}

// openTerminal makes a pair of pseudo terminals in a mounted devpts.
func openTerminal(devices string) (master, slave *os.File, err error) {
	master, err = os.OpenFile(filepath.Join(devices, "ptmx"), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, err
	}
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		slave, err = os.OpenFile(filepath.Join(devices, strconv.Itoa(number)), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		_ = master.Close()
		return nil, nil, fmt.Errorf("make a terminal: %w", err)
	}
	return master, slave, nil
}
