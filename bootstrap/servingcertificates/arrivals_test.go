package servingcertificates

import (
	"crypto/x509"
	"strconv"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/tenantapi"
)

func TestFinding3ACacheHoldsWhatADecisionNeeds(t *testing.T) {
	for name, test := range map[string]struct {
		edit func(*certificatesv1.CertificateSigningRequest)
		// pending is whether it is decided on.
		pending bool
	}{
		"one of a kubelet":               {func(*certificatesv1.CertificateSigningRequest) {}, true},
		"one that was signed":            {func(r *certificatesv1.CertificateSigningRequest) { r.Status.Certificate = make([]byte, 1<<20) }, false},
		"one that is too large":          {func(r *certificatesv1.CertificateSigningRequest) { r.Spec.Request = make([]byte, maxRequest) }, false},
		"one of a user with a long name": {func(r *certificatesv1.CertificateSigningRequest) { r.Spec.Username = strings.Repeat("a", 1<<20) }, false},
		"one with many groups":           {func(r *certificatesv1.CertificateSigningRequest) { r.Spec.Groups = make([]string, 1<<20) }, false},
		"one with a long annotation": {func(r *certificatesv1.CertificateSigningRequest) {
			r.Annotations = map[string]string{"a": strings.Repeat("a", 1<<20)}
		}, false},
		"one with a name that nobody takes": {func(r *certificatesv1.CertificateSigningRequest) { r.Name = strings.Repeat("a", 1<<20) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			of := request(t, &x509.CertificateRequest{DNSNames: []string{"node-1"}})
			of.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: strings.Repeat("a", 1<<20)}}
			test.edit(of)
			got, err := whatIsDecidedBy(of)
			kept, ok := got.(*certificatesv1.CertificateSigningRequest)
			if err != nil || !ok {
				t.Fatal(got, err)
			}
			if Pending(kept) != test.pending || kept.Size() > maxRequest || kept.Name == "" {
				t.Errorf("it is decided on: %t; it has %d bytes", Pending(kept), kept.Size())
			}
		})
	}
}

func TestFinding3ATenantWithTooManyRequestsIsLeftAlone(t *testing.T) {
	guard := (&tenantapi.Guards{}).Of(client.ObjectKey{Namespace: "team", Name: "blue"})
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[ctrl.Request]())
	defer queue.ShutDown()
	arriving := (&arrivals{cluster: client.ObjectKey{Namespace: "team", Name: "blue"}, guard: guard}).handler()
	made := func(i int) *certificatesv1.CertificateSigningRequest {
		return &certificatesv1.CertificateSigningRequest{
			ObjectMeta: metav1.ObjectMeta{Name: strconv.Itoa(i)}, Status: certificatesv1.CertificateSigningRequestStatus{Certificate: []byte("-")},
		}
	}
	// Those that come and go are not too many.
	for i := range 2 * maxRequests {
		arriving.Create(t.Context(), event.CreateEvent{Object: made(i)}, queue)
		arriving.Delete(t.Context(), event.DeleteEvent{Object: made(i)}, queue)
	}
	for i := range maxRequests {
		arriving.Create(t.Context(), event.CreateEvent{Object: made(i)}, queue)
	}
	if problem := guard.Problem(); problem != "" {
		t.Errorf("with as many as are kept: %q", problem)
	}
	arriving.Create(t.Context(), event.CreateEvent{Object: made(maxRequests)}, queue)
	if problem := guard.Problem(); !strings.Contains(problem, "left alone") {
		t.Errorf("with one more: %q", problem)
	}
	if queue.Len() != 0 {
		t.Error("the controller is woken for requests that were decided on")
	}
	pending := made(0)
	pending.Spec.SignerName, pending.Status.Certificate = certificatesv1.KubeletServingSignerName, nil
	arriving.Update(t.Context(), event.UpdateEvent{ObjectOld: pending, ObjectNew: pending}, queue)
	if queue.Len() != 1 {
		t.Error("the controller is not woken for a request that waits")
	}
}
