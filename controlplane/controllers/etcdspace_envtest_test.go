//go:build envtest

package controllers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/operator"
)

// The quota is filled with old versions of one key, and then with data in use, of which some are deleted.
func TestARealEtcdThatIsFullTakesWritesAgain(t *testing.T) {
	t.Parallel()
	e := newRealEtcd(t)
	e.controlPlane.Spec.Etcd.Data.QuotaBackendSize = ptr.To(resource.MustParse("16Mi"))
	e.reach(3)
	e.write()
	e.writer.stop()
	e.writer.done.Wait()

	e.fill(func(int) string { return "same" }, strings.Repeat("x", 256<<10))
	e.awaitRoom("old versions")

	// A file that is full may have free pages. It is written anew then, and takes some more.
	keys, asks := 0, &operator.Report{}
	own := func(int) string { keys++; return fmt.Sprintf("own-%05d", keys) }
	e.await("a person is asked", func(ctx context.Context) bool {
		if asks = e.round(ctx); len(asks.Problems()) == 0 && asks.Space == "" {
			e.fill(own, strings.Repeat("x", 64<<10))
		}
		return strings.Contains(asks.Space, "delete objects, or raise spec.etcd.data.quotaBackendSize")
	})
	if !asks.Full {
		t.Error("nobody may end the alarm of an etcd that is full of data in use")
	}
	e.await("they are deleted", func(ctx context.Context) bool {
		_, err := e.writer.client.Delete(ctx, "own-", clientv3.WithPrefix())
		return err == nil
	})
	e.awaitRoom("data that were deleted")
}

// fill writes until etcd has no space.
func (e *realEtcd) fill(key func(int) string, value string) {
	e.t.Helper()
	for i := range 1000 {
		if _, err := e.writer.client.Put(e.t.Context(), key(i), value); err != nil {
			if strings.Contains(err.Error(), "database space exceeded") {
				return
			}
			// A machine that is busy: the write may have come.
			if !strings.Contains(err.Error(), "request timed out") && !errors.Is(err, context.DeadlineExceeded) {
				e.t.Fatal(err)
			}
		}
	}
	e.t.Fatal("it is not full")
}

// awaitRoom waits until the operator has etcd take writes again.
func (e *realEtcd) awaitRoom(filledWith string) {
	e.t.Helper()
	var said []string
	report := &operator.Report{}
	// Each filling meets another program.
	e.operator = operator.New(e.reconciler.etcd, e.reconciler.Clock, e.reconciler.recorder)
	e.t.Cleanup(func() {
		if e.t.Failed() {
			e.t.Logf("it said %q, and at last %+v", said, report)
		}
	})
	e.await("there is room, after "+filledWith, func(ctx context.Context) bool {
		report = e.round(ctx)
		if report.Space != "" && (len(said) == 0 || said[len(said)-1] != report.Space) {
			said = append(said, report.Space)
		}
		_, err := e.writer.client.Put(ctx, "after", filledWith)
		return err == nil && len(report.Problems()) == 0 && report.Space == ""
	})
	e.t.Logf("%s:\n%s", filledWith, strings.Join(said, "\n"))
	// Old versions are dropped where free pages do not suffice, which differs from run to run.
	if steps := strings.Join(said, " "); !strings.Contains(steps, "written anew") || !strings.Contains(steps, "takes writes again") {
		e.t.Errorf("the steps were %q", said)
	}
}
