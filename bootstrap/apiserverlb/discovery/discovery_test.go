package discovery

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/ptr"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/backends"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/internal/apiservertest"
)

const seed = "10.0.0.9:6443"

// site is an API server with an EndpointSlice, and a node that discovers it.
type site struct {
	t         *testing.T
	authority *apiservertest.Authority
	slice     *apiservertest.Slice
	set       *backends.Set
	options   Options
	watcher   *Watcher
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, authority: apiservertest.NewAuthority(t), slice: apiservertest.NewSlice("10.0.0.1:6443", "10.0.0.2:6443")}
	server := apiservertest.New(t, s.authority, "127.0.0.2", s.slice)
	set, err := backends.NewSet([]string{seed}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	directory := t.TempDir()
	s.set = set
	s.options = Options{
		Kubeconfig: filepath.Join(directory, "kubelet.conf"), Address: server.Address, CAFile: s.authority.File(),
		ServerName: apiservertest.ServerName, UserAgent: "test", StateFile: filepath.Join(directory, "backends.json"),
	}
	kubeconfig := `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {client-certificate: current.pem, client-key: current.pem}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`
	if err := os.WriteFile(s.options.Kubeconfig, []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *site) certificate() string {
	return filepath.Join(filepath.Dir(s.options.Kubeconfig), "current.pem")
}

func (s *site) run() {
	s.watcher = New(s.options, s.set, logr.Discard())
	ctx, cancel := context.WithCancel(s.t.Context())
	ended := make(chan struct{})
	go func() {
		s.watcher.Run(ctx)
		close(ended)
	}()
	s.t.Cleanup(func() {
		cancel()
		<-ended
	})
}

func (s *site) listed() []string {
	var listed []string
	for _, b := range s.set.All() {
		if b.Listed() {
			listed = append(listed, b.Address)
		}
	}
	return listed
}

func (s *site) eventually(what string, condition func() bool) {
	s.t.Helper()
	deadline := time.After(30 * time.Second)
	for !condition() {
		select {
		case <-deadline:
			s.t.Fatalf("never happened: %s; listed %v, status %+v", what, s.listed(), s.watcher.Status())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func TestTheListFollowsTheEndpointSliceAndIsKept(t *testing.T) {
	s := newSite(t)
	s.authority.ClientFile(s.certificate(), "system:node:w1")
	s.run()
	s.eventually("the list is read", func() bool { return slices.Equal(s.listed(), []string{"10.0.0.1:6443", "10.0.0.2:6443"}) })
	user, query := s.slice.Caller()
	if user != "system:node:w1" || !strings.Contains(query, "fieldSelector=metadata.name%3Dkubernetes") {
		t.Errorf("asked by %q with %q", user, query)
	}
	s.slice.Set("10.0.0.2:6443", "10.0.0.3:6443")
	s.eventually("the change is seen", func() bool { return slices.Equal(s.listed(), []string{"10.0.0.2:6443", "10.0.0.3:6443"}) })
	s.eventually("the change is kept", func() bool {
		kept, err := Load(s.options.StateFile)
		return err == nil && slices.Equal(kept, s.listed())
	})
	if status := s.watcher.Status(); status.Problem != "" || status.Changed.IsZero() || status.BytesReceived == 0 {
		t.Errorf("status %+v", status)
	}
}

func TestAListThatCouldNotBeWrittenIsWrittenLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set, err := backends.NewSet([]string{seed}, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "later", "backends.json")
		// There is no kubeconfig: the list comes from the test.
		w := New(Options{Kubeconfig: file, StateFile: file}, set, logr.Discard())
		w.accept(&discoveryv1.EndpointSlice{
			Ports: []discoveryv1.EndpointPort{{Port: ptr.To[int32](6443)}}, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}}},
		})
		if problem := w.Status().Problem; !strings.Contains(problem, "keep the list of API servers") {
			t.Errorf("the status says %q", problem)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			w.Run(ctx)
			close(ended)
		}()
		synctest.Wait()
		if err := os.Mkdir(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Minute)
		synctest.Wait()
		if kept, err := Load(file); err != nil || !slices.Equal(kept, []string{"10.0.0.1:6443"}) {
			t.Errorf("kept %v, %v", kept, err)
		}
		if problem := w.Status().Problem; strings.Contains(problem, "keep the list") {
			t.Errorf("the status still says %q", problem)
		}
		cancel()
		<-ended
	})
}

func TestAnEmptySetIsNeverAccepted(t *testing.T) {
	s := newSite(t)
	s.authority.ClientFile(s.certificate(), "system:node:w1")
	s.run()
	s.eventually("the list is read", func() bool { return len(s.listed()) == 2 })
	s.slice.Set()
	s.eventually("the empty list is told", func() bool { return strings.Contains(s.watcher.Status().Problem, "empty") })
	if len(s.listed()) != 2 {
		t.Errorf("listed %v", s.listed())
	}
	kept, err := Load(s.options.StateFile)
	if err != nil || len(kept) != 2 {
		t.Errorf("kept %v, %v", kept, err)
	}
	s.slice.Set("10.0.0.3:6443")
	s.eventually("the next list is taken", func() bool { return slices.Equal(s.listed(), []string{"10.0.0.3:6443"}) })
}

func TestANodeThatHasNoCertificateYetGetsTheListWhenItHas(t *testing.T) {
	s := newSite(t)
	s.run()
	s.eventually("the missing certificate is told", func() bool { return strings.Contains(s.watcher.Status().Problem, "current.pem") })
	s.authority.ClientFile(s.certificate(), "system:node:w1")
	s.eventually("the list is read", func() bool { return len(s.listed()) == 2 })
}

func TestAnIdentityThatIsRefusedIsReadAnew(t *testing.T) {
	s := newSite(t)
	apiservertest.NewAuthority(t).ClientFile(s.certificate(), "system:node:stranger")
	s.run()
	s.eventually("the refusal is told", func() bool { return s.watcher.Status().Problem != "" })
	s.authority.ClientFile(s.certificate(), "system:node:w1")
	s.eventually("the list is read", func() bool { return len(s.listed()) == 2 })
}

func TestAddresses(t *testing.T) {
	port := func(name string, number int32) discoveryv1.EndpointPort {
		return discoveryv1.EndpointPort{Name: ptr.To(name), Port: ptr.To(number)}
	}
	endpoint := func(ready *bool, addresses ...string) discoveryv1.Endpoint {
		return discoveryv1.Endpoint{Addresses: addresses, Conditions: discoveryv1.EndpointConditions{Ready: ready}}
	}
	for name, test := range map[string]struct {
		slice discoveryv1.EndpointSlice
		want  []string
	}{
		"all endpoints at the port": {discoveryv1.EndpointSlice{
			Ports: []discoveryv1.EndpointPort{port("https", 20001)}, Endpoints: []discoveryv1.Endpoint{endpoint(nil, "10.0.0.1"), endpoint(ptr.To(true), "10.0.0.2")},
		}, []string{"10.0.0.1:20001", "10.0.0.2:20001"}},
		"IPv6 in brackets": {discoveryv1.EndpointSlice{
			AddressType: discoveryv1.AddressTypeIPv6, Ports: []discoveryv1.EndpointPort{port("https", 6443)}, Endpoints: []discoveryv1.Endpoint{endpoint(nil, "fd00::1")},
		}, []string{"[fd00::1]:6443"}},
		"not one that is not ready": {discoveryv1.EndpointSlice{
			Ports: []discoveryv1.EndpointPort{port("https", 6443)}, Endpoints: []discoveryv1.Endpoint{endpoint(ptr.To(false), "10.0.0.1"), endpoint(nil, "10.0.0.2")},
		}, []string{"10.0.0.2:6443"}},
		"the port named https of several": {discoveryv1.EndpointSlice{
			Ports: []discoveryv1.EndpointPort{port("metrics", 1), port("https", 2)}, Endpoints: []discoveryv1.Endpoint{endpoint(nil, "10.0.0.1")},
		}, []string{"10.0.0.1:2"}},
		"nothing without a port": {discoveryv1.EndpointSlice{Endpoints: []discoveryv1.Endpoint{endpoint(nil, "10.0.0.1")}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Addresses(&test.slice); !slices.Equal(got, test.want) {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestTheKeptList(t *testing.T) {
	directory := t.TempDir()
	path := filepath.Join(directory, "backends.json")
	if kept, err := Load(path); err != nil || kept != nil {
		t.Errorf("before anything was kept: %v, %v", kept, err)
	}
	for i := range 3 {
		want := []string{fmt.Sprintf("10.0.0.%d:6443", i)}
		if err := Save(path, want); err != nil {
			t.Fatal(err)
		}
		if kept, err := Load(path); err != nil || !slices.Equal(kept, want) {
			t.Errorf("kept %v, %v", kept, err)
		}
	}
	entries, err := os.ReadDir(directory)
	if err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
	for name, content := range map[string]string{"half a file": `{"backends":["10.0`, "no address": `{"backends":["nowhere"]}`} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(path); err == nil {
			t.Errorf("%s was read without an error", name)
		}
	}
	if err := Save(filepath.Join(directory, "missing", "backends.json"), nil); err == nil {
		t.Error("no error for a directory that does not exist")
	}
}
