package previousrelease

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// writeOverlay writes files and what go build's flag -overlay reads to put them in the place of others.
func writeOverlay(tree, work string, replaced map[string][]byte) (string, error) {
	tree, err := filepath.Abs(tree)
	if err != nil {
		return "", err
	}
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for path, content := range replaced {
		original := filepath.Join(tree, path)
		if _, err := os.Stat(original); err != nil {
			return "", fmt.Errorf("replace a file of the tree: %w", err)
		}
		file := filepath.Join(work, strconv.Itoa(len(overlay.Replace))+filepath.Ext(path))
		if err := os.WriteFile(file, content, 0o600); err != nil {
			return "", err
		}
		overlay.Replace[original] = file
	}
	data, err := json.Marshal(overlay)
	if err != nil {
		return "", err
	}
	file := filepath.Join(work, "overlay.json")
	return file, os.WriteFile(file, data, 0o600)
}
