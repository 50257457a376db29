package noise

import (
	"context"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/timeline"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/load"
)

// Reads are how long reads took that were answered, and what became of the others.
type Reads struct {
	Times  []time.Duration
	Failed []error
}

// Read reads an object so many times a second, from one client after the other, until the context ends. Each read goes to etcd, as
// it asks for the present state.
func Read(ctx context.Context, rate int, clients []kubernetes.Interface) Reads {
	var lock sync.Mutex
	var all Reads
	load.Pace(ctx, rate, func(i int) {
		reading, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		began := time.Now()
		_, err := clients[i%len(clients)].CoreV1().Namespaces().Get(reading, metav1.NamespaceDefault, metav1.GetOptions{})
		took := time.Since(began)
		lock.Lock()
		defer lock.Unlock()
		if err != nil {
			all.Failed = append(all.Failed, err)
			return
		}
		all.Times = append(all.Times, took)
	})
	return all
}

// Plus are the reads of both.
func (r Reads) Plus(other Reads) Reads {
	return Reads{Times: slices.Concat(r.Times, other.Times), Failed: slices.Concat(r.Failed, other.Failed)}
}

// Quantile is the time that a part of the answered reads took at most, as timeline.Quantile has it.
func (r Reads) Quantile(part float64) time.Duration { return timeline.Quantile(r.Times, part) }
