package look

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/facts"
)

// maxStack bounds a program that follows pages of a damaged database in a circle.
const maxStack = 64 << 20

// maxMemory bounds the same program by the size of the database, with about four times what the check of a whole one needs.
// It stays below the limit of the container: kubelet has the kernel end all programs of a container that exceeds it, and a
// prepare that is ended keeps etcd from starting.
func maxMemory(d directory, limit int64) uint64 {
	most := int64(512 << 20)
	if info, err := os.Stat(d.database()); err == nil {
		most += info.Size() / 8
	}
	return uint64(max(min(most, limit/4*3), leastMemory)) //nolint:gosec // It is not negative.
}

// leastMemory is what it takes to open the database of a member that is well.
const leastMemory = 256 << 20

// Main looks at a data directory, and is all that its program does: a damaged database may end it at any time.
func Main(dir string, need int64, out io.Writer) error {
	debug.SetMaxStack(maxStack)
	// kubelet gives the limit as GOMEMLIMIT.
	most := maxMemory(directory{dir}, debug.SetMemoryLimit(-1))
	if err := unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: most, Max: most}); err != nil {
		return fmt.Errorf("bound the memory of this program: %w", err)
	}
	encoder := json.NewEncoder(out)
	var failed error
	here(dir, need, func(f facts.Facts) { failed = errors.Join(failed, encoder.Encode(f)) })
	return failed
}

// Child has another program call Main, and gives what it found. What the program says when it ends too early is a fact, too.
// When the context ends, the program is killed, and what it found until then counts.
func Child(ctx context.Context, program *exec.Cmd) facts.Facts {
	errs := &head{left: maxErrors}
	program.Stderr = errs
	out, err := program.StdoutPipe()
	if err == nil {
		err = program.Start()
	}
	if err != nil && ctx.Err() == nil {
		return judged(facts.Facts{}, fmt.Errorf("start the program that looks: %w", err))
	}
	if err != nil {
		return concluded(facts.Facts{}, 0, ending{err: err, timedOut: true})
	}
	found, reports := read(out)
	return concluded(found, reports, ending{err: program.Wait(), timedOut: ctx.Err() != nil, said: errs.String()})
}

// read is the last report of a program, and how many there were.
func read(out io.Reader) (last facts.Facts, reports int) {
	decoder := json.NewDecoder(out)
	for {
		var f facts.Facts
		if err := decoder.Decode(&f); err != nil {
			_, _ = io.Copy(io.Discard, out)
			return last, reports
		}
		last = f
		reports++
	}
}

// ending is how a program ended.
type ending struct {
	err      error
	timedOut bool
	said     string
}

// concluded is what follows from the reports of a program and from its end.
func concluded(f facts.Facts, reports int, e ending) facts.Facts {
	var exit *exec.ExitError
	killed := errors.As(e.err, &exit) && exit.Sys().(syscall.WaitStatus).Signaled()
	switch {
	case e.err == nil && f.State != "":
		return f
	case f.State == "" && e.timedOut:
		return judged(f, problemf(facts.NotFinished, "the time did not suffice to read the data directory: the disk is slow, or gives errors"))
	case f.State != "" && (e.timedOut || killed || strings.Contains(e.said, "out of memory")):
		return f // All but the check of the database was done, and what ended that is not the database.
	case killed || reports == 0:
		return judged(f, fmt.Errorf("the program that looks ended early: %w: %s", errors.Join(e.err), cause(e.said)))
	}
	return judged(f, problemf(facts.DatabaseDamaged, "the database is damaged: %s", cause(e.said)))
}

// cause is the line of a crash that says why.
func cause(said string) string {
	for line := range strings.Lines(said) {
		for _, prefix := range []string{"panic: ", "unexpected fault ", "fatal error: ", "runtime: goroutine stack exceeds"} {
			if strings.HasPrefix(line, prefix) {
				return strings.TrimSpace(strings.TrimPrefix(line, "panic: "))
			}
		}
	}
	line, _, _ := strings.Cut(said, "\n")
	return line
}

// maxErrors is how much of what a program says on its way out is kept.
const maxErrors = 64 << 10

// head keeps the beginning of what is written.
type head struct {
	bytes.Buffer
	left int
}

// Write implements io.Writer.
func (h *head) Write(p []byte) (int, error) {
	kept := p[:min(len(p), h.left)]
	h.left -= len(kept)
	_, _ = h.Buffer.Write(kept)
	return len(p), nil
}
