package steps

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-on-kube/cluster-api-provider-kok/hack/markdown"
)

// most is how many commands a newcomer has to run at most.
const most = 25

func TestAFirstWorkerTakesFewCommands(t *testing.T) {
	steps, err := Documented()
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, step := range steps {
		for _, command := range step.Commands {
			count += Count(command)
			// Several in one line are none that a person sees.
			if strings.Contains(command, "&&") || strings.Contains(command, ";") || strings.Contains(command, "<<") {
				t.Errorf("%s: write one command in a line: %s", step.Title, command)
			}
			t.Logf("%d %s: %s", count, step.Title, command)
		}
	}
	if count > most {
		t.Errorf("%s has %d commands, and wants %d at most", Path, count, most)
	}
}

// What a reader needs, in the order in which it is needed.
func TestTheStepsHaveAllThatAWorkerNeeds(t *testing.T) {
	steps, err := Documented()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, step := range steps {
		all = append(all, step.Commands...)
	}
	left := strings.Join(all, "\n")
	for _, want := range []string{
		"make push ", "clusterctl init ", "kubectl create namespace ", "pod-security.kubernetes.io/enforce=privileged", "kubectl label node ",
		"kok hosts add ", "kok hosts add ", "kok hosts add ", "kok software add ", "clusterctl generate cluster ", "kubectl apply ",
		"clusterctl get kubeconfig ", "apply -f $NETWORK", " get nodes", "kok status ",
	} {
		_, after, found := strings.Cut(left, want)
		if !found {
			t.Fatalf("%s has no %q after the commands before it:\n%s", Path, want, left)
		}
		left = after
	}
}

// Where it is code, what a step says of its success is what a person looks for on the screen.
func TestEveryStepAfterTheFirstSaysWhatItPrints(t *testing.T) {
	steps, err := Documented()
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range steps[1:] {
		if len(step.Worked) == 0 {
			t.Errorf("%s: %q does not say in \"Worked\" what is printed, as code", Path, step.Title)
		}
	}
	if printed := steps[0].Worked; len(printed) > 0 {
		t.Errorf("the first step sets variables, which prints nothing, and not %q", printed)
	}
}

func TestTheTenantIsDeletedAsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../" + Path)
	if err != nil || !strings.Contains(strings.Join(strings.Fields(string(page)), " "), "To delete the tenant, run `"+Delete+"`") {
		t.Errorf("%s does not delete the tenant by %q, %v", Path, Delete, err)
	}
}

func TestAShellUnderstandsTheSteps(t *testing.T) {
	steps, err := Documented()
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range steps {
		for _, command := range step.Commands {
			if said, err := exec.CommandContext(t.Context(), "sh", "-n", "-c", command).CombinedOutput(); err != nil {
				t.Errorf("%s: %v: %s: %s", step.Title, err, said, command)
			}
		}
	}
}

func TestStepsOfAPage(t *testing.T) {
	const one = "# Page\n\n```yaml\na: b\n```\n\n## 1. First\n\n```sh\n# Look:\nls \\\n  -l\n\ncat a\n```\n"
	for name, test := range map[string]struct {
		page, problem string
		want          []Step
	}{
		"are its headings with numbers": {
			page: one + "\n```sh\nrm a\n```\n\n## 2. Second\n\n```sh\npwd\n```\n\n- **Worked:** `a\n  b` and `c`.\n- **If not:** `d`\n\n## Other\n\n```sh\nid\n```\n",
			want: []Step{
				{Title: "1. First", Commands: []string{"ls \\\n  -l", "cat a", "rm a"}},
				{Title: "2. Second", Commands: []string{"pwd"}, Worked: []string{"a b", "c"}},
			},
		},
		"have numbers without a gap":         {page: one + "\n## 3. Third\n\n```sh\npwd\n```\n", problem: `"3. Third" is where step 2. `},
		"have blocks of sh alone":            {page: one + "\n```yaml\na: b\n```\n", problem: `"1. First" has a block of "yaml"`},
		"have a language":                    {page: one + "\n```\npwd\n```\n", problem: `"1. First" has a block of ""`},
		"have commands":                      {page: one + "\n## 2. Second\n", problem: `"2. Second" has no command`},
		"are there":                          {page: "# Page\n\n```sh\nls\n```\n", problem: "no heading with a number"},
		"are not headings that have a point": {page: one + "\n## v1. Old\n", want: []Step{{Title: "1. First", Commands: []string{"ls \\\n  -l", "cat a"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := of(markdown.Parse(test.page))
			if test.problem == "" && err != nil || test.problem != "" && (err == nil || !strings.Contains(err.Error(), test.problem)) {
				t.Errorf("%v, want %q", err, test.problem)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
