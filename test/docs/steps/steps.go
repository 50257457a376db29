// Package steps reads the commands of docs/install.md that lead from nothing to the first worker, for tests that run them.
package steps

import (
	"fmt"
	"strings"

	"github.com/kube-on-kube/cluster-api-provider-kok/hack/markdown"
)

// Path is where the document is.
const Path = "docs/install.md"

// Step is one numbered heading.
type Step struct {
	// Title is the heading with its number.
	Title string
	// Commands are as they are written, in their order. They share one shell: some set variables for those after them.
	Commands []string
	// Worked are the texts that the commands print when they worked: what is code in the item "Worked".
	Worked []string
}

// Delete is the command that the document ends the steps with: it deletes the tenant.
const Delete = "kubectl delete cluster blue --namespace team"

// Documented are the steps of the document.
func Documented() ([]Step, error) {
	page, err := markdown.Read(Path)
	if err != nil {
		return nil, err
	}
	return of(page)
}

// of are the steps of a page: the headings 1., 2. and so on, which have blocks of sh alone.
func of(page *markdown.Page) ([]Step, error) {
	var steps []Step
	for _, heading := range page.Headings {
		if !numbered(heading) {
			continue
		}
		if want := fmt.Sprintf("%d. ", len(steps)+1); !strings.HasPrefix(heading, want) {
			return nil, fmt.Errorf("%s: the heading %q is where step %s has to be", Path, heading, want)
		}
		step := Step{Title: heading}
		for _, block := range page.Blocks {
			if block.Under != heading {
				continue
			}
			if block.Language != "sh" {
				return nil, fmt.Errorf("%s: %q has a block of %q; the blocks of a step are sh", Path, heading, block.Language)
			}
			step.Commands = append(step.Commands, Commands(block.Code)...)
		}
		if len(step.Commands) == 0 {
			return nil, fmt.Errorf("%s: %q has no command", Path, heading)
		}
		for _, item := range page.Items {
			if said, found := strings.CutPrefix(item.Text, "**Worked:**"); found && item.Under == heading {
				step.Worked = append(step.Worked, markdown.Code(said)...)
			}
		}
		steps = append(steps, step)
	}
	if len(steps) == 0 {
		return nil, fmt.Errorf("%s has no heading with a number", Path)
	}
	return steps, nil
}

// Count is how many commands a command is: one within another counts as well.
func Count(command string) int { return 1 + strings.Count(command, "$(") }

func numbered(heading string) bool {
	number, _, found := strings.Cut(heading, ". ")
	return found && number != "" && strings.Trim(number, "0123456789") == ""
}

// Commands are the lines of a block; one that ends with a backslash goes on in the next.
func Commands(code string) []string {
	var all []string
	begun := ""
	for line := range strings.Lines(code) {
		begun += line
		if strings.HasSuffix(line, "\\\n") {
			continue
		}
		if command := strings.TrimSpace(begun); command != "" && !strings.HasPrefix(command, "#") {
			all = append(all, command)
		}
		begun = ""
	}
	return all
}
