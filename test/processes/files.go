package processes

import (
	"bytes"
	"os"
	"path/filepath"
)

// Write writes what the process reads and makes the directories that it starts with. place says where a path of the
// process is for us.
func (p *Process) Write(place func(path string) string) error {
	for path, content := range p.Files {
		if err := os.MkdirAll(filepath.Dir(place(path)), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(place(path), content, 0o600); err != nil {
			return err
		}
	}
	for _, path := range p.Data {
		if err := os.MkdirAll(place(path), 0o700); err != nil {
			return err
		}
	}
	return nil
}

// LastLines are the last n lines of a file: the last words of a process that wrote them there.
func LastLines(path string, n int) []byte {
	data, err := os.ReadFile(path)
	if err != nil {
		return []byte(err.Error())
	}
	lines := bytes.Split(bytes.TrimSpace(data), []byte("\n"))
	return bytes.Join(lines[max(0, len(lines)-n):], []byte("\n"))
}
