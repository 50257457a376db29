package adminmachine

import (
	"fmt"
	"strings"

	"github.com/kube-on-kube/cluster-api-provider-kok/hack/markdown"
)

// page is where the commands are.
const page = "docs/api-access.md"

// commands are those of the page under a heading, one a line, in their order.
func commands(heading string) ([]string, error) {
	read, err := markdown.Read(page)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, block := range read.Blocks {
		if block.Under == heading && block.Language == "sh" {
			found = append(found, strings.Split(strings.TrimSpace(block.Code), "\n")...)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s has no command under %q", page, heading)
	}
	return found, nil
}
