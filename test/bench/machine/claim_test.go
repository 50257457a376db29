package machine

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOneBenchmarkRunsAtATime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	release, err := claim(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := claim(path); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("process %d:", os.Getpid())) {
		t.Errorf("a second benchmark is told %v", err)
	}
	release()
	// The file stays, as one does of a benchmark that was killed.
	release, err = claim(path)
	if err != nil {
		t.Fatalf("after the first ended: %v", err)
	}
	release()
}
