package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
)

// Collect writes what explains a failure into a directory: of each host its console, journal, network and containers' logs, the
// logs of programs beside them, the host cluster's audit log, and every object of the host cluster, Secrets without their values. It goes on after an
// error and returns all of them.
func (l *Lab) Collect(ctx context.Context, directory string) error {
	hosts, err := l.Hosts()
	if err != nil {
		return err
	}
	var errs []error
	for _, h := range hosts {
		if err := l.collectHost(ctx, h, filepath.Join(directory, "hosts", h.Name)); err != nil {
			errs = append(errs, fmt.Errorf("collect from %s: %w", h.Name, err))
		}
	}
	errs = append(errs, l.collectPrograms(filepath.Join(directory, "programs")))
	if path, err := l.AuditLogPath(); err == nil && exists(path) {
		errs = append(errs, copyRegular(path, filepath.Join(directory, "audit.log")))
	}
	if status, err := l.Status(ctx); err == nil {
		errs = append(errs, writeTo(filepath.Join(directory, "status.txt"), status.Write))
	}
	errs = append(errs, l.collectObjects(ctx, filepath.Join(directory, "objects")))
	return errors.Join(errs...)
}

func (l *Lab) collectHost(ctx context.Context, h *host.Host, directory string) error {
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return err
	}
	var errs []error
	if exists(h.Console()) {
		errs = append(errs, copyRegular(h.Console(), filepath.Join(directory, "console.log")))
	}
	errs = append(errs, writeTo(filepath.Join(directory, "journal.log"), func(w io.Writer) error {
		cmd := exec.CommandContext(ctx, "journalctl", "--directory", h.DiskPath("/var/log/journal"), "--no-pager", "--output", "short-precise")
		cmd.Stdout = w
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("read the journal: %w", err)
		}
		return nil
	}))
	if h.Booted() {
		errs = append(errs, collectNetwork(ctx, h, filepath.Join(directory, "network.txt")))
	}
	pods := h.DiskPath("/var/log/pods")
	if !exists(pods) {
		return errors.Join(errs...)
	}
	// <namespace>_<pod>_<uid>/<container>/<restart>.log
	err := filepath.WalkDir(pods, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return ignoreMissing(err) // a pod may go meanwhile
		}
		below, err := filepath.Rel(pods, path)
		if err != nil {
			return err
		}
		return ignoreMissing(copyRegular(path, filepath.Join(directory, "pods", below)))
	})
	return errors.Join(append(errs, err)...)
}

// collectNetwork writes down how packets find their way on a host, and what kube-proxy made of Services.
func collectNetwork(ctx context.Context, h *host.Host, path string) error {
	return writeTo(path, func(w io.Writer) error {
		var errs []error
		for _, argv := range [][]string{
			{"ip", "-detail", "address"}, {"ip", "route", "show", "table", "all"}, {"ip", "neighbour"}, {"bridge", "fdb"}, {"nft", "list", "ruleset"},
		} {
			output, err := h.Exec(ctx, nil, argv...)
			_, writeErr := fmt.Fprintf(w, "$ %s\n%s\n", strings.Join(argv, " "), output)
			errs = append(errs, err, writeErr)
		}
		return errors.Join(errs...)
	})
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// writeTo writes a file in a directory that is made when needed.
func writeTo(path string, write func(io.Writer) error) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(file), file.Close())
}

func copyRegular(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // only read
	return writeTo(to, func(w io.Writer) error {
		_, err := io.Copy(w, in)
		return err
	})
}

// fileName makes an object's or a group's name one path element.
func fileName(parts ...string) string {
	var kept []string
	for _, p := range parts {
		if p != "" {
			kept = append(kept, strings.ReplaceAll(p, "/", "_"))
		}
	}
	return strings.Join(kept, ".")
}
