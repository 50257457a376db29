package kubelet_test

import (
	"os"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/nodekeys/internal/nodetest"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/nodekeys/kubelet"
)

func TestMain(m *testing.M) {
	nodetest.Main()
	os.Exit(m.Run())
}

func TestArg(t *testing.T) {
	process := &kubelet.Process{Args: []string{"--config=/a", "--kubeconfig", "/b", "-bootstrap-kubeconfig=/c", "--v", "--config=/d", "config=/e", "--last"}}
	for name, want := range map[string]string{"config": "/d", "kubeconfig": "/b", "bootstrap-kubeconfig": "/c", "last": "", "cert-dir": ""} {
		if got := process.Arg(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if got := (*kubelet.Process)(nil).Arg("config"); got != "" {
		t.Errorf("no process has %q", got)
	}
}

func TestTheProcessThatRunsIsFoundAndEndedAndNoOther(t *testing.T) {
	m := nodetest.NewMachine(t, "https://127.0.0.1:1", nil, nodetest.NewCA(t))
	k := m.StartKubelet(t)
	before := k.Running(t, "")
	if got := before.Arg("kubeconfig"); got != m.Paths.Kubeconfig {
		t.Errorf("its kubeconfig is %q", got)
	}
	if age := time.Since(before.Started); age < -time.Second || age > time.Minute {
		t.Errorf("it started %s ago", age)
	}
	another := ptr.To(*before)
	another.Start++ // Its PID is another process's by now.
	nodetest.Must(t, another.Terminate())
	if now, err := k.Find(); err != nil || now.ID() != before.ID() {
		t.Errorf("another process was ended: %v, %v", now, err)
	}
	nodetest.Must(t, before.Terminate())
	after := k.Running(t, before.ID())
	nodetest.Must(t, before.Terminate()) // It has ended.
	if now, err := k.Find(); err != nil || now.ID() != after.ID() {
		t.Errorf("another process was ended: %v, %v", now, err)
	}
	if none, err := kubelet.Find("kl-none"); err != nil || none != nil {
		t.Errorf("found %v, %v", none, err)
	}
}
