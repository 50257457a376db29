package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
)

// module is what `go list -m -json` says of a module.
type module struct {
	Version string
	Dir     string
}

// findModule returns the version and source folder of a module that the repository at root
// requires, downloading it when it is not in the module cache.
func findModule(root, path string) (module, error) {
	var m module
	cmd := exec.Command("go", "mod", "download", "-json", path)
	cmd.Dir = root
	cmd.Stderr = os.Stderr
	data, err := cmd.Output()
	if err != nil {
		return m, fmt.Errorf("download module %s: %w", path, err)
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return m, fmt.Errorf("read what go says of module %s: %w", path, err)
	}
	return m, nil
}
