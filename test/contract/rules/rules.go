// Package rules lists the rules of the contracts of Cluster API that the project follows, and says which of them no test
// is named after, and why.
package rules

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kube-on-kube/cluster-api-provider-kok/hack/markdown"
	testenvironment "github.com/kube-on-kube/cluster-api-provider-kok/test/envtest"
)

// Contract is what Cluster API asks of one kind of resource.
type Contract struct {
	// Name is that of the resource in the contract, such as InfraCluster.
	Name string
	// Kind is ours.
	Kind string
	// Page is the name of the contract in Cluster API's book.
	Page string
	// Untested are reasons why rules have no test, by the rules' names.
	Untested map[string]string
}

// Test is the name of the test that has a subtest for each rule, of the rule's name.
func (c Contract) Test() string { return "Test" + c.Name + "Contract" }

// Rule is one rule of a contract.
type Rule struct {
	Name      string
	Mandatory bool
}

// Read reads the rules from the book of the version of Cluster API that the project is built with. It fails for a reason
// that is of no rule.
func (c Contract) Read() ([]Rule, error) {
	module, err := testenvironment.ModuleDir("sigs.k8s.io/cluster-api")
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(module, "docs/book/src/developer/providers/contracts", c.Page+".md"))
	if err != nil {
		return nil, fmt.Errorf("read the contract %s: %w", c.Name, err)
	}
	var rules []Rule
	unknown := maps.Clone(c.Untested)
	for _, row := range markdown.Parse(string(text)).Rows("Rule", "Mandatory") {
		name := strings.Trim(row["Rule"], "[]")
		rules = append(rules, Rule{Name: name, Mandatory: row["Mandatory"] == "Yes"})
		delete(unknown, name)
	}
	if len(rules) == 0 {
		return nil, fmt.Errorf("the contract %s has no table of rules", c.Name)
	}
	if len(unknown) > 0 {
		return nil, fmt.Errorf("there are reasons for what is no rule of the contract %s: %q", c.Name, slices.Sorted(maps.Keys(unknown)))
	}
	return rules, nil
}
