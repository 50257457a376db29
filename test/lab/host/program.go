package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// RecordProgram records this process in a file, as RecordProcess does.
func RecordProgram(file string) error { return RecordProcess(file, os.Getpid()) }

// RecordProcess records a process in a file, whose folder is made. While the process of an earlier record runs it fails.
func RecordProcess(file string, pid int) error {
	former, err := Program(file)
	if err != nil {
		return err
	}
	if former > 0 && former != pid {
		return fmt.Errorf("process %d runs already, by %s: end it first", former, file)
	}
	now, err := identify(pid)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	return writeJSON(file, now)
}

// Program is the number of the process that a file records; 0 when it does not run, or there is no record.
func Program(file string) (int, error) {
	recorded, err := readProgram(file)
	if err != nil || !recorded.alive() {
		return 0, err
	}
	return recorded.PID, nil
}

// EndProgram ends the process that a file records, at once, and forgets it. One that has ended is none to end.
func EndProgram(ctx context.Context, file string) error {
	recorded, err := readProgram(file)
	if err != nil {
		return err
	}
	if recorded.alive() {
		if err := recorded.kill(ctx); err != nil {
			return err
		}
	}
	return removeIfThere(file)
}

// readProgram is the record in a file; an empty one when there is none.
func readProgram(file string) (recorded process, err error) {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return recorded, nil
	}
	if err != nil {
		return recorded, err
	}
	if err := json.Unmarshal(data, &recorded); err != nil {
		return recorded, fmt.Errorf("read the record of a program, %s: %w", file, err)
	}
	return recorded, nil
}

func removeIfThere(file string) error {
	if err := os.Remove(file); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
