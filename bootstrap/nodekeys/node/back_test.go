package node_test

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/nodekeys/internal/nodetest"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/nodekeys/wanted"
)

// content is what all files of a machine have, but for that of the process in kubelet's place.
func content(t *testing.T, m nodetest.Machine) map[string]string {
	t.Helper()
	files := map[string]string{}
	nodetest.Must(t, filepath.WalkDir(m.Folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || path == m.Path("kubelet-has-read") {
			return err
		}
		raw, err := os.ReadFile(path)
		files[path] = string(raw)
		return err
	}))
	return files
}

// refuses checks that a program with an earlier goal changes nothing, and says why.
func refuses(t *testing.T, m nodetest.Machine, k *nodetest.Kubelet, w wanted.Wanted, why string) {
	t.Helper()
	before := content(t, m)
	api := &tenant{t: t, by: nodetest.NewCA(t)}
	waits, err := start(m, k, api, &faults{}).Bring(t.Context(), w)
	if err != nil || !strings.Contains(waits, why) || !strings.Contains(waits, "nothing is changed") {
		t.Errorf("it waits for %q, %v, want %q", waits, err, why)
	}
	after := content(t, m)
	for _, path := range slices.Sorted(maps.Keys(after)) {
		if after[path] != before[path] {
			t.Errorf("%s was changed", path)
		}
	}
	if len(before) != len(after) || len(api.made) > 0 {
		t.Errorf("files are gone, or %d certificates were asked for", len(api.made))
	}
}

// A restore of etcd brings the DaemonSet of an earlier phase or an earlier rotation back.
func TestANodeTakesNoStepBack(t *testing.T) {
	born, first, second := nodetest.NewCA(t), nodetest.NewCA(t), nodetest.NewCA(t)
	m := nodetest.NewMachine(t, "https://127.0.0.1:1", nil, born)
	k := m.StartKubelet(t)
	k.Running(t, "")
	bringTo := func(w wanted.Wanted, signer nodetest.CA) {
		t.Helper()
		nodetest.Must(t, bring(t, start(m, k, &tenant{t: t, by: signer}, &faults{}), w))
		waitRead(t, m)
	}
	later := func(w wanted.Wanted) wanted.Wanted {
		w.Order.Rotation = "2031-01-02T03:04:05Z"
		return w
	}
	former := []wanted.Wanted{trusting(born, first), using(born, first), dropping(first)}
	for i, w := range former {
		bringTo(w, first)
		for _, earlier := range former[:i] {
			refuses(t, m, k, earlier, fmt.Sprintf("to step %d of the rotation of %s", i+1, asked))
		}
	}
	for i, w := range []wanted.Wanted{trusting(first, second), using(first, second), dropping(second)} {
		bringTo(later(w), second)
		for _, earlier := range former {
			refuses(t, m, k, earlier, fmt.Sprintf("to step %d of the rotation of 2031", i+1))
		}
	}
	if k.Starts() != 7 {
		t.Errorf("kubelet was started %d times, want once for each step", k.Starts())
	}
}

// It joined after the rotations, and no pod has worked on it.
func TestANewNodeTakesNoStepBackEither(t *testing.T) {
	born, first, second := nodetest.NewCA(t), nodetest.NewCA(t), nodetest.NewCA(t)
	m := nodetest.NewMachine(t, "https://127.0.0.1:1", nil, second)
	k := m.StartKubelet(t)
	k.Running(t, "")
	for _, earlier := range []wanted.Wanted{trusting(born, first), using(born, first), dropping(first), trusting(first, second), using(first, second)} {
		refuses(t, m, k, earlier, "trusts other CAs than before the rotation")
	}
	if k.Starts() != 1 {
		t.Error("kubelet was restarted")
	}
}

// What is not certain is not guessed.
func TestAnOrderThatCannotBeReadIsNoOrder(t *testing.T) {
	former, next := nodetest.NewCA(t), nodetest.NewCA(t)
	m := nodetest.NewMachine(t, "https://127.0.0.1:1", nil, former)
	m.Write(t, "order", "")
	k := m.StartKubelet(t)
	k.Running(t, "")
	if _, err := start(m, k, &tenant{t: t, by: next}, &faults{}).Bring(t.Context(), trusting(former, next)); err == nil || !strings.Contains(err.Error(), "how far this node has come") {
		t.Errorf("got %v", err)
	}
}

// The order is there before anything else of a step is, and so a pod of an earlier step finds it.
func TestAProgramThatIsKilledAnywhereLeavesNoWayBack(t *testing.T) {
	former, next := nodetest.NewCA(t), nodetest.NewCA(t)
	for at := 1; ; at++ {
		if at > 100 {
			t.Fatal("the program is never done")
		}
		m := nodetest.NewMachine(t, "https://127.0.0.1:1", nil, former)
		k := m.StartKubelet(t)
		k.Running(t, "")
		api := &tenant{t: t, by: next}
		nodetest.Must(t, bring(t, start(m, k, api, &faults{}), using(former, next)))
		waitRead(t, m)
		done := bring(t, start(m, k, api, &faults{at: at}), dropping(next)) == nil
		k.Running(t, "")
		refuses(t, m, k, trusting(former, next), "this node has come further")
		if done || t.Failed() {
			return
		}
	}
}
