// Command conditions writes the reference of conditions and their reasons from the comments of the constants
// that name them in api/.
package main

import (
	"fmt"
	"os"

	"github.com/kube-on-kube/cluster-api-provider-kok/hack/markdown"
)

// out is where the reference is; paths are relative to the top folder of the repository.
const (
	out             = "docs/reference/conditions.md"
	troubleshooting = "docs/troubleshooting.md"
)

func main() {
	if err := run("."); err != nil {
		fmt.Fprintln(os.Stderr, "conditions:", err)
		os.Exit(1)
	}
}

func run(root string) error {
	page, err := reference(root)
	if err != nil {
		return err
	}
	return os.WriteFile(root+"/"+out, page, 0o644)
}

// reference makes the page of everything that the API of the repository at root says.
func reference(root string) ([]byte, error) {
	var kinds []kind
	for _, api := range apis {
		found, err := read(root, api)
		if err != nil {
			return nil, fmt.Errorf("read the conditions of %s: %w", api, err)
		}
		kinds = append(kinds, found...)
	}
	more, err := os.ReadFile(root + "/" + troubleshooting)
	if err != nil {
		return nil, err
	}
	return render(kinds, markdown.Parse(string(more))), nil
}
