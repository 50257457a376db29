package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// programName is that of the copy.
const programName = "kok-etcd-agent"

// copyProgram copies this program into a folder, for a container that has another image. It is there whole, or not at all.
func copyProgram(folder string) (err error) {
	path, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("copy this program to %s: %w", folder, err)
		}
	}()
	target := filepath.Join(folder, programName)
	if same, err := sameProgram(path, target); same || err != nil {
		return err
	}
	program, err := os.Open(path)
	if err != nil {
		return err
	}
	defer program.Close() //nolint:errcheck // It was only read.
	// A run that was killed leaves the file behind. The next run truncates it.
	file, err := os.OpenFile(filepath.Join(folder, "."+programName), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o700)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, program)
	if err = errors.Join(err, file.Chmod(0o755), file.Sync(), file.Close()); err == nil {
		err = os.Rename(file.Name(), target)
	}
	if err != nil {
		_ = os.Remove(file.Name())
	}
	return err
}

// sameProgram reports whether a copy can be run, and has the bytes of the program.
func sameProgram(program, copied string) (bool, error) {
	info, err := os.Lstat(copied)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if !info.Mode().IsRegular() || info.Mode().Perm() != 0o755 {
		return false, nil
	}
	of, err := sumOf(program)
	if err != nil {
		return false, err
	}
	there, err := sumOf(copied)
	return bytes.Equal(of, there), err
}

func sumOf(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // It was only read.
	sum := sha256.New()
	_, err = io.Copy(sum, file)
	return sum.Sum(nil), err
}
