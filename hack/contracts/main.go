// Command contracts writes the reference of the rules of Cluster API's contracts, each with its test or the reason why it
// has none.
package main

import (
	"bytes"
	"fmt"
	"os"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/contract/rules"
)

// out is where the reference is, from the top folder of the repository.
const out = "docs/reference/contracts.md"

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "contracts:", err)
		os.Exit(1)
	}
}

func run() error {
	page, err := reference()
	if err != nil {
		return err
	}
	return os.WriteFile(out, page, 0o644)
}

const head = `# Contracts

<!-- Made of Cluster API's book and test/contract/rules by make generate. -->

The rules of Cluster API's contracts, version v1beta2, as the version of Cluster API in go.mod has them. Each has a test of
its own, named after it, or a reason why it needs none. ` + "`make test-contracts`" + ` runs the tests and counts them.
`

func reference() ([]byte, error) {
	page := bytes.NewBufferString(head)
	for _, contract := range rules.All() {
		found, err := contract.Read()
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(page, "\n## %s: %s\n\n", contract.Name, contract.Kind)
		fmt.Fprintf(page, "The [contract](https://cluster-api.sigs.k8s.io/developer/providers/contracts/%s) is tested by `%s`.\n\n", contract.Page, contract.Test())
		page.WriteString("| rule | mandatory | tested |\n|---|---|---|\n")
		for _, rule := range found {
			tested := "yes"
			if reason, untested := contract.Untested[rule.Name]; untested {
				tested = "no: " + reason
			}
			fmt.Fprintf(page, "| %s | %s | %s |\n", rule.Name, map[bool]string{true: "yes", false: "no"}[rule.Mandatory], tested)
		}
	}
	return page.Bytes(), nil
}
