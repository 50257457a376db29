//go:build envtest

package journal

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/interrupt"
)

// link is a way to an API server that can be cut, and be whole again.
type link struct {
	lock        sync.Mutex
	away        bool
	opened      int
	connections []net.Conn
}

func (l *link) dial(ctx context.Context, network, address string) (net.Conn, error) {
	l.lock.Lock()
	defer l.lock.Unlock()
	if l.away {
		return nil, errors.New("the link is cut")
	}
	connection, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err == nil {
		l.opened++
		l.connections = append(l.connections, connection)
	}
	return connection, err
}

// openings is the number of connections until now.
func (l *link) openings() int {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.opened
}

// set cuts all connections, and lets new ones through or not.
func (l *link) set(away bool) {
	l.lock.Lock()
	defer l.lock.Unlock()
	l.away = away
	for _, connection := range l.connections {
		_ = connection.Close()
	}
	l.connections = nil
}

func TestAJournal(t *testing.T) {
	environment := &envtest.Environment{}
	stop, err := interrupt.Guard(func() error { _, err := environment.Start(); return err }, environment.Stop)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stop() })
	config := environment.Config
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	way := &link{}
	config.Dial = way.dial
	j, err := Start(t.Context(), Options{Name: "test", Config: config, Namespace: metav1.NamespaceDefault, Rate: 50})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(j.Stop)
	until := func(what string, reached func(*Result) bool) {
		t.Helper()
		if err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
			return reached(j.Result()), nil
		}); err != nil {
			t.Fatalf("%s: %v: %s", what, err, j.Result())
		}
	}

	until("writes and reads of most of what is due", func(r *Result) bool { return r.Acknowledged > max(50, r.Due/2) && r.Read > 10 })
	if name, text, ok := j.First(); name != "test-0" || text == "" || !ok {
		t.Errorf("the first key is %q with %q, %t", name, text, ok)
	}
	if r := j.Result(); len(r.Failed) > 0 {
		t.Errorf("while nothing happens %q failed: %s", r.Failed, r)
	}
	if opened := way.openings(); opened < 2*50/freshEvery {
		t.Errorf("%d connections for more than 50 keys", opened)
	}
	way.set(true)
	until("failures while the link is cut", func(r *Result) bool { return len(r.Failed) > 0 && r.Raw.Broken > 0 })
	way.set(false)
	done := j.Result().Acknowledged
	until("the watch is open again", func(r *Result) bool { return r.WatchEnds > 0 && r.Acknowledged > done+20 })
	if unseen, err := j.Unseen(t.Context(), time.Minute); err != nil || len(unseen) > 0 {
		t.Errorf("the watch missed %q: %v", unseen, err)
	}
	if lists := j.Result().WatchLists; lists > 0 {
		t.Errorf("keys were listed %d times", lists)
	}
	j.Stop()
	if lost, err := j.Lost(t.Context(), api); err != nil || len(lost) > 0 {
		t.Errorf("lost without a reason: %q, %v", lost, err)
	}

	keys := api.CoreV1().ConfigMaps(metav1.NamespaceDefault)
	first, err := keys.Get(t.Context(), "test-0", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := keys.Delete(t.Context(), first.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if lost, err := j.Lost(t.Context(), api); err != nil || len(lost) != 1 || lost[0] != "test-0 is not there" {
		t.Errorf("one was deleted: %q, %v", lost, err)
	}

	// A new API server forgets all former events. It makes new certificates, too, so the watch gets a new client.
	if err := errors.Join(environment.ControlPlane.APIServer.Stop(), environment.ControlPlane.APIServer.Start()); err != nil {
		t.Fatal(err)
	}
	admin, err := environment.AddUser(envtest.User{Name: "admin", Groups: []string{"system:masters"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	options := j.options
	options.Config = admin.Config()
	old, err := newWatch(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	old.from = first.ResourceVersion
	running, end := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() { old.run(running) })
	last := j.name(j.Newest())
	if err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		return old.has(last, j.acknowledged[last])
	}); err != nil {
		t.Errorf("a watch from long ago has no %s: %v", last, err)
	}
	end()
	group.Wait()
	if _, lists := old.endings(); lists != 1 || old.problem != nil {
		t.Errorf("a watch from long ago listed %d times, and has the problem %v", lists, old.problem)
	}
}
