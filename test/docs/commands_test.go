package docs

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/yaml"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
)

// command is a line of a block of shell commands.
type command struct{ file, line string }

func commands(t *testing.T) []command {
	t.Helper()
	var all []command
	for file, page := range pages(t) {
		for _, block := range page.Blocks {
			if block.Language != "sh" {
				continue
			}
			for line := range strings.Lines(strings.ReplaceAll(block.Code, "\\\n", " ")) {
				all = append(all, command{filepath.Base(file), strings.TrimSpace(line)})
			}
		}
	}
	return all
}

// checked calls check with what the expression finds in commands, and wants it to find something.
func checked(t *testing.T, expression string, check func(c command, found []string)) {
	t.Helper()
	compiled, times := regexp.MustCompile(expression), 0
	for _, c := range commands(t) {
		for _, found := range compiled.FindAllStringSubmatch(c.line, -1) {
			check(c, found)
			times++
		}
	}
	if times == 0 {
		t.Errorf("no command has %s", expression)
	}
}

// patched are the objects that commands patch.
var patched = map[string]func() any{
	"kokcontrolplane":   func() any { return &controlplanev1.KOKControlPlane{} },
	"idchost":           func() any { return &infrav1.IDCHost{} },
	"cluster":           func() any { return &clusterv1.Cluster{} },
	"machinedeployment": func() any { return &clusterv1.MachineDeployment{} },
	"pvc":               func() any { return &corev1.PersistentVolumeClaim{} },
}

func TestPatchesInCommandsAreOfFieldsThatThereAre(t *testing.T) {
	checked(t, `kubectl .*\bpatch (\S+) \S+ .*-p `, func(c command, found []string) {
		if patched[found[1]] == nil {
			t.Errorf("%s patches a %s, whose fields this test does not know: %s", c.file, found[1], c.line)
		}
		if !regexp.MustCompile(` --type[ =](merge|json) ?-p '`).MatchString(c.line) {
			t.Errorf("%s: want --type merge or json before -p: %s", c.file, c.line)
		}
	})
	checked(t, `patch (\S+) \S+ --type[ =]merge -p '([^']*)'`, func(c command, found []string) {
		if err := yaml.UnmarshalStrict([]byte(found[2]), patched[found[1]]()); err != nil {
			t.Errorf("%s: %v in %s", c.file, err, c.line)
		}
	})
	checked(t, `patch (\S+) \S+ --type[ =]json -p '([^']*)'`, func(c command, found []string) {
		var operations []struct{ Op, Path string }
		if err := json.Unmarshal([]byte(found[2]), &operations); err != nil || len(operations) == 0 {
			t.Errorf("%s: %v in %s", c.file, err, c.line)
		}
		for _, operation := range operations {
			fields := strings.Split(strings.TrimPrefix(operation.Path, "/"), "/")
			if !hasField(reflect.TypeOf(patched[found[1]]()), fields) {
				t.Errorf("%s: there is no %s in %s", c.file, operation.Path, c.line)
			}
		}
	})
}

// hasField reports whether a type has a field of a field, by their names in JSON.
func hasField(of reflect.Type, path []string) bool {
	for of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	if len(path) > 0 && of.Kind() == reflect.Slice && regexp.MustCompile(`^(-|\d+)$`).MatchString(path[0]) {
		return hasField(of.Elem(), path[1:])
	}
	if len(path) == 0 || of.Kind() != reflect.Struct {
		return len(path) == 0
	}
	for i := range of.NumField() {
		name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
		if name == path[0] {
			return hasField(of.Field(i).Type, path[1:])
		}
	}
	return false
}

func TestCommandsAreOfResourcesThatThereAre(t *testing.T) {
	files, err := filepath.Glob("../../config/*/crd/bases/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var known []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		crd := apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(text, &crd); err != nil {
			t.Fatal(err)
		}
		known = append(append(known, crd.Spec.Names.Singular, crd.Spec.Names.Plural), crd.Spec.Names.ShortNames...)
	}
	checked(t, `kubectl .*\b(?:annotate|autoscale|delete|describe|get|patch|scale|wait) ([\w,]*(?:kok|idc)[\w,]*)`, func(c command, found []string) {
		for resource := range strings.SplitSeq(found[1], ",") {
			isOurs := strings.HasPrefix(resource, "kok") || strings.HasPrefix(resource, "idc")
			if isOurs && !slices.Contains(known, resource) {
				t.Errorf("%s: there is no resource %s: %s", c.file, resource, c.line)
			}
		}
	})
}

func TestCommandsWaitForConditionsThatThereAre(t *testing.T) {
	headings := pages(t)["../../docs/reference/conditions.md"].Headings
	checked(t, `wait kokcontrolplane .*--for=condition=(\w+)`, func(c command, found []string) {
		if !slices.Contains(headings, "KOKControlPlane: "+found[1]) {
			t.Errorf("%s: there is no condition %s: %s", c.file, found[1], c.line)
		}
	})
}

func TestCommandsMakeWhatCanBeMade(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	checked(t, `^make ([a-z][a-z0-9-]*)`, func(c command, found []string) {
		if !strings.Contains(string(makefile), "\n.PHONY: "+found[1]+"\n") {
			t.Errorf("%s: there is no target %s: %s", c.file, found[1], c.line)
		}
	})
}

func TestCommandsNameTemplatesAndLabelsThatThereAre(t *testing.T) {
	isThere := func(c command, path string) {
		if _, err := os.Stat(filepath.Join("../..", path)); err != nil {
			t.Errorf("%s: %v: %s", c.file, err, c.line)
		}
	}
	checked(t, `\b(templates/[\w.-]+)`, func(c command, found []string) { isThere(c, found[1]) })
	checked(t, `--flavor[ =]([\w-]+)`, func(c command, found []string) { isThere(c, "templates/cluster-template-"+found[1]+".yaml") })
	checked(t, `kubectl label node.* (kok\.[\w./-]+\w)`, func(c command, found []string) {
		if found[1] != controlplanev1.HostNodeLabel && found[1] != controlplanev1.PortPoolLabel {
			t.Errorf("%s: %s is no label of host nodes: %s", c.file, found[1], c.line)
		}
	})
}
