package node_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	certificatesclient "k8s.io/client-go/kubernetes/typed/certificates/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/certificate"
	"k8s.io/utils/clock"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/nodekeys/csr"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/nodekeys/internal/nodetest"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/nodekeys/kubelet"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/nodekeys/node"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software/disk"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/nodekeys/wanted"
)

func TestMain(m *testing.M) {
	nodetest.Main()
	os.Exit(m.Run())
}

// tenant signs all requests by a CA, at once.
type tenant struct {
	certificatesclient.CertificateSigningRequestInterface
	t    *testing.T
	by   nodetest.CA
	made []*certificatesv1.CertificateSigningRequest
}

func (f *tenant) connect(*csr.Pair) (certificatesclient.CertificateSigningRequestInterface, error) {
	return f, nil
}

func (f *tenant) Create(_ context.Context, request *certificatesv1.CertificateSigningRequest, _ metav1.CreateOptions) (*certificatesv1.CertificateSigningRequest, error) {
	request = request.DeepCopy()
	request.Name, request.UID = fmt.Sprintf("%s%d", request.GenerateName, len(f.made)), types.UID(fmt.Sprint(len(f.made)))
	request.Status.Certificate = f.by.Sign(f.t, request.Spec.Request)
	f.made = append(f.made, request)
	return request, nil
}

func (f *tenant) Get(_ context.Context, name string, _ metav1.GetOptions) (*certificatesv1.CertificateSigningRequest, error) {
	for _, request := range f.made {
		if request.Name == name {
			return request, nil
		}
	}
	return nil, fmt.Errorf("no %s", name)
}

// faults kills a program before its n-th write or look at processes; 0 kills it never.
type faults struct{ at, count int }

var errKilled = errors.New("killed")

func (f *faults) pass() error {
	if f.count++; f.at > 0 && f.count >= f.at {
		return errKilled
	}
	return nil
}

// start is a new run of the program on the machine.
func start(m nodetest.Machine, k *nodetest.Kubelet, api *tenant, f *faults) *node.Node {
	return &node.Node{
		Paths: m.Paths, Log: logr.Discard(),
		Disk: &disk.Disk{Root: "/", Writing: func(string) error { return f.pass() }},
		Find: func() (*kubelet.Process, error) {
			if err := f.pass(); err != nil {
				return nil, err
			}
			return k.Find()
		},
		Requests: &csr.Requests{Connect: api.connect, Clock: clock.RealClock{}},
	}
}

// bring runs the program until the node is as wanted, or the program is killed.
func bring(t *testing.T, n *node.Node, w wanted.Wanted) error {
	t.Helper()
	last := ""
	err := wait.PollUntilContextTimeout(t.Context(), 2*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		waits, err := n.Bring(ctx, w)
		last = waits
		return waits == "", err
	})
	if err != nil && !errors.Is(err, errKilled) {
		t.Fatalf("the node does not come to what is wanted: %v, waits for %q", err, last)
	}
	return err
}

// checkNode checks that all files are as wanted, and that kubelet has read them.
func checkNode(t *testing.T, m nodetest.Machine, w wanted.Wanted, signer nodetest.CA) {
	t.Helper()
	for _, name := range []string{"ca.crt", "lb-ca.crt"} {
		if m.Read(t, name) != string(w.Trusted) {
			t.Errorf("%s has other CAs than those that are wanted", name)
		}
	}
	for _, name := range []string{"kubelet.conf", "bootstrap-kubelet.conf"} {
		config, err := clientcmd.LoadFromFile(m.Path(name))
		nodetest.Must(t, err)
		if string(config.Clusters["tenant"].CertificateAuthorityData) != string(w.Trusted) {
			t.Errorf("%s has other CAs than those that are wanted", name)
		}
		if config.Contexts["context"].Namespace != "kept" || config.AuthInfos["user"] == nil {
			t.Errorf("%s lost something else: %+v", name, config)
		}
	}
	for _, name := range []string{"kubelet-client", "kubelet-server"} {
		// This is how kubelet reads it.
		store, err := certificate.NewFileStore(name, m.Path("pki"), m.Path("pki"), "", "")
		nodetest.Must(t, err)
		current, err := store.Current()
		nodetest.Must(t, err)
		if err := current.Leaf.CheckSignatureFrom(signer.Certificate); err != nil {
			t.Errorf("%s is not by the CA that is wanted: %v", name, err)
		}
		if name == "kubelet-server" && (len(current.Leaf.IPAddresses) != 1 || len(current.Leaf.DNSNames) != 1) {
			t.Errorf("kubelet serves at %v, %v", current.Leaf.DNSNames, current.Leaf.IPAddresses)
		}
		if _, err := os.Stat(m.Path("pki/" + name + "-first.pem")); err != nil {
			t.Errorf("the pair before is gone: %v", err)
		}
	}
	for name, mode := range map[string]os.FileMode{"ca.crt": 0o644, "lb-ca.crt": 0o640, "kubelet.conf": 0o600, "bootstrap-kubelet.conf": 0o600, "pki/kubelet-client-current.pem": 0o600} {
		if info, err := os.Stat(m.Path(name)); err != nil || info.Mode() != mode {
			t.Errorf("the mode of %s: %v, %v; it was %v", name, info.Mode(), err, mode)
		}
	}
	if parts, _ := filepath.Glob(m.Path("*part")); len(parts) > 0 {
		t.Errorf("these are left: %v", parts)
	}
	if !m.HasRead(t) {
		t.Error("kubelet has not read its files since they changed")
	}
}

const asked = "2030-01-02T03:04:05Z"

func trusting(former, next nodetest.CA) wanted.Wanted {
	return wanted.Wanted{Trusted: nodetest.Bundle(former, next), Order: wanted.Order{Rotation: asked, Step: 1}}
}

func using(former, next nodetest.CA) wanted.Wanted {
	return wanted.Wanted{Trusted: nodetest.Bundle(former, next), Signer: next.PEM, Order: wanted.Order{Rotation: asked, Step: 2}}
}

func dropping(next nodetest.CA) wanted.Wanted {
	return wanted.Wanted{Trusted: next.PEM, Signer: next.PEM, Order: wanted.Order{Rotation: asked, Step: 3}}
}

func TestANodeGoesThroughARotationAndKubeletRestartsOnceAPhase(t *testing.T) {
	former, next := nodetest.NewCA(t), nodetest.NewCA(t)
	m := nodetest.NewMachine(t, "https://127.0.0.1:1", nil, former)
	k := m.StartKubelet(t)
	k.Running(t, "")
	api := &tenant{t: t, by: next}
	for i, phase := range []struct {
		name   string
		wanted wanted.Wanted
		signer nodetest.CA
		starts int
	}{
		{"Trusting", trusting(former, next), former, 2},
		{"Using", using(former, next), next, 3},
		{"Dropping", dropping(next), next, 4},
	} {
		t.Run(phase.name, func(t *testing.T) {
			for range 2 { // The pod may be another one.
				nodetest.Must(t, bring(t, start(m, k, api, &faults{}), phase.wanted))
				waitRead(t, m)
				checkNode(t, m, phase.wanted, phase.signer)
				if k.Starts() != phase.starts {
					t.Errorf("kubelet was started %d times after %d phases, want %d", k.Starts(), i+1, phase.starts)
				}
			}
		})
	}
	if len(api.made) != 2 {
		t.Errorf("%d certificates were asked for, want a client's and a server's", len(api.made))
	}
}

// waitRead waits until the process that runs has read its files.
func waitRead(t *testing.T, m nodetest.Machine) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, 10*time.Second, true, func(context.Context) (bool, error) { return m.HasRead(t), nil })
	if err != nil {
		t.Error("kubelet has not read its files since they changed")
	}
}

// Each write, and each look at kubelet's process, is the last of one run. The next run ends as one that nothing happened to.
func TestAProgramThatIsKilledAnywhereEndsInTheSameState(t *testing.T) {
	former, next := nodetest.NewCA(t), nodetest.NewCA(t)
	w := using(former, next)
	for at := 1; ; at++ {
		if at > 100 {
			t.Fatal("the program is never done")
		}
		done := false
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			m := nodetest.NewMachine(t, "https://127.0.0.1:1", nil, former)
			k := m.StartKubelet(t)
			k.Running(t, "")
			api := &tenant{t: t, by: next}
			done = bring(t, start(m, k, api, &faults{at: at}), w) == nil
			for _, name := range []string{"kubelet-client", "kubelet-server"} {
				store, err := certificate.NewFileStore(name, m.Path("pki"), m.Path("pki"), "", "")
				nodetest.Must(t, err)
				if _, err := store.Current(); err != nil {
					t.Errorf("a kill leaves kubelet without %s: %v", name, err)
				}
			}
			nodetest.Must(t, bring(t, start(m, k, api, &faults{}), w))
			waitRead(t, m)
			checkNode(t, m, w, next)
			if k.Starts() != 2 {
				t.Errorf("kubelet was started %d times, want 2", k.Starts())
			}
		})
		if done || t.Failed() {
			break
		}
	}
}

func TestACertificateByTheFormerCAIsThrownAway(t *testing.T) {
	former, next := nodetest.NewCA(t), nodetest.NewCA(t)
	m := nodetest.NewMachine(t, "https://127.0.0.1:1", nil, former)
	k := m.StartKubelet(t)
	k.Running(t, "")
	api := &tenant{t: t, by: former}
	n := start(m, k, api, &faults{})
	before := m.Read(t, "pki/kubelet-client-current.pem")
	for range 3 { // It is asked for once: the next time comes later.
		waits, err := n.Bring(t.Context(), wanted.Wanted{Trusted: nodetest.Bundle(former, next), Signer: next.PEM})
		if err != nil || !strings.Contains(waits, "does not sign by that one yet") {
			t.Errorf("it waits for %q, %v", waits, err)
		}
	}
	if len(api.made) != 1 || m.Read(t, "pki/kubelet-client-current.pem") != before || k.Starts() != 1 {
		t.Errorf("%d certificates were asked for, kubelet was started %d times", len(api.made), k.Starts())
	}
}

// It has read some files before they were written, and others after.
func TestAKubeletThatStartsAmidTheWritesIsRestartedOnceMore(t *testing.T) {
	former, next := nodetest.NewCA(t), nodetest.NewCA(t)
	m := nodetest.NewMachine(t, "https://127.0.0.1:1", nil, former)
	k := m.StartKubelet(t)
	before := k.Running(t, "")
	n := start(m, k, &tenant{t: t, by: next}, &faults{})
	n.Disk.Writing = func(operation string) error {
		if operation != "write "+m.Paths.Kubeconfig {
			return nil
		}
		defer k.Running(t, before.ID())
		return before.Terminate()
	}
	w := wanted.Wanted{Trusted: nodetest.Bundle(former, next), Signer: next.PEM}
	nodetest.Must(t, bring(t, n, w))
	waitRead(t, m)
	if k.Starts() != 3 {
		t.Errorf("kubelet was started %d times, want 3", k.Starts())
	}
}
