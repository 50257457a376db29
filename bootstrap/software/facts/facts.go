// Package facts finds out what a machine is, as far as variants of software depend on it.
package facts

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// Facts are the facts of a machine that variants are matched with.
type Facts struct {
	// OS and OSVersion are ID and VERSION_ID of os-release(5). Some distributions have no VERSION_ID.
	OS, OSVersion string
	// Architecture is named as Go does.
	Architecture string
	// Version is the Kubernetes version of the Machine.
	Version string
}

// String is for people.
func (f Facts) String() string {
	system := f.OS
	if system == "" {
		system = "an unknown distribution"
	}
	if f.OSVersion != "" {
		system += " " + f.OSVersion
	}
	return system + " on " + f.Architecture + " with Kubernetes " + f.Version
}

// maxRelease is how much of os-release is read.
const maxRelease = 64 << 10

// Read reads the facts of the machine whose root directory is root.
func Read(root string) (Facts, error) {
	found := Facts{Architecture: runtime.GOARCH}
	for _, name := range []string{"/etc/os-release", "/usr/lib/os-release"} {
		file, err := os.Open(filepath.Join(root, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return found, fmt.Errorf("find out which distribution this is: %w", err)
		}
		values, err := parse(io.LimitReader(file, maxRelease))
		_ = file.Close()
		if err != nil {
			return found, fmt.Errorf("read %s: %w", name, err)
		}
		found.OS, found.OSVersion = values["ID"], values["VERSION_ID"]
		if found.OS == "" {
			// The default by os-release(5).
			found.OS = "linux"
		}
		return found, nil
	}
	return found, errors.New("find out which distribution this is: neither /etc/os-release nor /usr/lib/os-release is there")
}

// parse reads the assignments of os-release(5).
func parse(r io.Reader) (map[string]string, error) {
	values := map[string]string{}
	scanner := bufio.NewScanner(r)
	for scanner.Scan() {
		line := strings.TrimSpace(scanner.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if name, value, ok := strings.Cut(line, "="); ok {
			values[name] = unquote(value)
		}
	}
	return values, scanner.Err()
}

// unquote takes the quotes of a shell off a value.
func unquote(value string) string {
	if len(value) < 2 || value[0] != '"' && value[0] != '\'' || value[len(value)-1] != value[0] {
		return value
	}
	inner := value[1 : len(value)-1]
	if value[0] == '\'' {
		return inner
	}
	var b strings.Builder
	for i := 0; i < len(inner); i++ {
		if inner[i] == '\\' && i+1 < len(inner) && strings.IndexByte("\\\"$`", inner[i+1]) >= 0 {
			i++
		}
		b.WriteByte(inner[i])
	}
	return b.String()
}
