package servingcertificates

import (
	"context"
	"fmt"
	"sync/atomic"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/tenantapi"
)

const (
	// maxRequests is how many requests of a tenant are kept: the largest cluster has 5,000 nodes, each makes two when it
	// joins, and Kubernetes deletes requests that were decided on after an hour.
	maxRequests = 30_000
	// maxRequest is the greatest size of a request that is kept, in bytes: kubelet's have about 1,000.
	maxRequest = 8 << 10
)

// whatIsDecidedBy keeps in the caches of tenants the fields of a request that decisions need. Of a request that no kubelet
// makes it keeps the name alone, and marks it as decided.
func whatIsDecidedBy(in any) (any, error) {
	request, ok := in.(*certificatesv1.CertificateSigningRequest)
	if !ok {
		return in, nil
	}
	request.ManagedFields = nil
	if Pending(request) && request.Size() <= maxRequest {
		return request, nil
	}
	return &certificatesv1.CertificateSigningRequest{
		TypeMeta:   request.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{Name: beginning(request.Name), ResourceVersion: beginning(request.ResourceVersion)},
		Spec:       certificatesv1.CertificateSigningRequestSpec{SignerName: certificatesv1.KubeletServingSignerName},
		Status:     certificatesv1.CertificateSigningRequestStatus{Certificate: []byte("-")},
	}, nil
}

// beginning is a name, cut to the greatest length that Kubernetes accepts.
func beginning(name string) string { return string([]byte(name[:min(len(name), 253)])) }

// arrivals wakes the controller for each request that needs a decision. It makes the guard leave a tenant alone that has
// more than maxRequests.
type arrivals struct {
	cluster client.ObjectKey
	guard   *tenantapi.Guard
	count   atomic.Int64
}

func (a *arrivals) handler() handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) {
			if a.count.Add(1) == maxRequests+1 {
				a.guard.LeaveAlone(tenantapi.TooMany, fmt.Sprintf("it has more than %d requests for certificates", maxRequests))
			}
			a.wake(e.Object, queue)
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) {
			a.wake(e.ObjectNew, queue)
		},
		DeleteFunc: func(context.Context, event.DeleteEvent, workqueue.TypedRateLimitingInterface[ctrl.Request]) {
			a.count.Add(-1)
		},
	}
}

func (a *arrivals) wake(object client.Object, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) {
	if request, ok := object.(*certificatesv1.CertificateSigningRequest); ok && Pending(request) {
		queue.Add(ctrl.Request{NamespacedName: a.cluster})
	}
}
