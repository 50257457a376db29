package lab

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestTwoCommandsDoNotChangeTheLabAtOnce(t *testing.T) {
	l := &Lab{state: filepath.Join(t.TempDir(), "lab")}
	err := l.locked(t.Context(), func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		return l.locked(ctx, func() error {
			t.Error("the second command ran beside the first")
			return nil
		})
	})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the second command ended with %v, want that it waited in vain", err)
	}
	ran := false
	if err := l.locked(t.Context(), func() error { ran = true; return nil }); err != nil || !ran {
		t.Errorf("after the first command ended the lock was still held: %v", err)
	}
}

func TestALockWhoseFileIsRemovedGoesToOneHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lab.lock")
	first, err := tryLock(path)
	if err != nil || first == nil {
		t.Fatalf("lock: %v, %v", first, err)
	}
	defer first.Close()                     //nolint:errcheck // only a lock
	if err := os.Remove(path); err != nil { // as down --purge does while it holds the lock
		t.Fatal(err)
	}
	second, err := tryLock(path)
	if err != nil || second == nil {
		t.Fatalf("lock of the new file: %v, %v", second, err)
	}
	defer second.Close() //nolint:errcheck // only a lock
	if third, err := tryLock(path); err != nil || third != nil {
		t.Errorf("the new file was locked twice: %v, %v", third, err)
	}
}
