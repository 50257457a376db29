package artifacts

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestKeyTellsPartsApart(t *testing.T) {
	if key("ab", "c") == key("a", "bc") {
		t.Error("parts that join to the same text have the same key")
	}
	first, again := key("a", "b"), key("a", "b")
	if first != again {
		t.Errorf("the key of the same parts is %s and %s", first, again)
	}
}

func TestRecipeFolderFollowsEveryInput(t *testing.T) {
	base, err := kubernetesRecipe("v1.36.3", "kubelet")
	if err != nil {
		t.Fatal(err)
	}
	other, err := kubernetesRecipe("v1.35.4", "kubelet")
	if err != nil {
		t.Fatal(err)
	}
	more, err := kubernetesRecipe("v1.36.3", "kubelet", "kube-proxy")
	if err != nil {
		t.Fatal(err)
	}
	tagged := base
	tagged.tags = "tag"
	tests := base
	tests.tests = true
	same := base.dir("/cache", "go1.26.8")
	if again := base.dir("/cache", "go1.26.8"); again != same {
		t.Errorf("the same recipe is built in %s and in %s", same, again)
	}
	for name, dir := range map[string]string{
		"another Go version":      base.dir("/cache", "go1.26.9"),
		"another Kubernetes":      other.dir("/cache", "go1.26.8"),
		"one program more":        more.dir("/cache", "go1.26.8"),
		"its tests":               tests.dir("/cache", "go1.26.8"),
		"another set of tags":     tagged.dir("/cache", "go1.26.8"),
		"another folder of cache": base.dir("/elsewhere", "go1.26.8"),
	} {
		if dir == same {
			t.Errorf("%s is built in the same folder %s", name, dir)
		}
	}
}

func TestTreeKeyFollowsContentAndMode(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "main.go")
	keyOf := func() string {
		t.Helper()
		k, err := treeKey(dir)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	write := func(text string, mode os.FileMode) {
		t.Helper()
		if err := errors.Join(os.WriteFile(file, []byte(text), mode), os.Chmod(file, mode)); err != nil {
			t.Fatal(err)
		}
	}
	write("one", 0o644)
	first := keyOf()
	write("two", 0o644)
	second := keyOf()
	write("two", 0o755)
	third := keyOf()
	if first == second || second == third {
		t.Errorf("keys %s, %s, %s: want three different ones", first, second, third)
	}
}

func TestPublishLeavesNothingOfAFailure(t *testing.T) {
	final := filepath.Join(t.TempDir(), "cache", "thing")
	failed := errors.New("interrupted")
	err := publish(final, func(tmp string) error {
		if err := os.WriteFile(tmp, []byte("half"), 0o644); err != nil {
			return err
		}
		return failed
	})
	if !errors.Is(err, failed) || exists(final) {
		t.Fatalf("error %v, final is there: %v; want the failure and nothing", err, exists(final))
	}
	if err := publish(final, func(tmp string) error {
		if exists(tmp) {
			t.Error("what the interrupted run left is still there")
		}
		return os.WriteFile(tmp, []byte("whole"), 0o644)
	}); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(final); err != nil || string(data) != "whole" {
		t.Errorf("got %q, %v", data, err)
	}
}
