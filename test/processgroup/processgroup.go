// Package processgroup runs programs that end together with the processes that they start.
package processgroup

import (
	"os/exec"
	"syscall"
	"time"
)

// Run runs a command, which has a context, to its end. When the context ends, the command and the processes that it
// started get SIGINT, and a limit of time to remove what they made. None of them outlives a command that fails.
//
// They are a process group of their own: a terminal sends them nothing. Programs such as make, go and ginkgo do not pass
// an interrupt on to what they run, which gets it from a terminal otherwise.
func Run(cmd *exec.Cmd, limit time.Duration) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = limit
	err := cmd.Run()
	if err != nil && cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // none is left, unless they took too long
	}
	return err
}
