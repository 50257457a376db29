package servingcertificates

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	kubeadmv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
)

// many are copies of a request, with names of their own.
func many(n int, made *certificatesv1.CertificateSigningRequest) []client.Object {
	var copies []client.Object
	for i := range n {
		one := made.DeepCopy()
		one.Name = fmt.Sprintf("request-%d", i)
		copies = append(copies, one)
	}
	return copies
}

// pending counts the requests of a tenant that nobody has decided on.
func pending(t *testing.T, tenant client.Client) int {
	t.Helper()
	requests := &certificatesv1.CertificateSigningRequestList{}
	if err := tenant.List(t.Context(), requests); err != nil {
		t.Fatal(err)
	}
	n := 0
	for i := range requests.Items {
		if Pending(&requests.Items[i]) {
			n++
		}
	}
	return n
}

// A tenant's administrator makes requests faster than they are decided on: other tenants, and what is decided for this one,
// must not wait until the last of them.
func TestATenantWithManyRequestsHasOneTurnAfterTheOther(t *testing.T) {
	const turns = 3
	management := []client.Object{cluster(func(*clusterv1.Cluster) {}), machine(func(*clusterv1.Machine) {})}
	r, tenant := between(t, management, many((turns-1)*requestsATurn+1, request(t, asked()))...)
	for turn := range turns {
		before, last := pending(t, tenant), turn == turns-1
		result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(management[0])})
		if err != nil {
			t.Fatal(err)
		}
		if took := before - pending(t, tenant); took > requestsATurn || (result.RequeueAfter > 0) == last {
			t.Errorf("turn %d decided on %d requests, and the next one is after %s", turn+1, took, result.RequeueAfter)
		}
	}
	if left := pending(t, tenant); left > 0 {
		t.Errorf("%d requests were not decided on", left)
	}
}

// A tenant's administrator makes first requests of any token at will. They must not load the management cluster's API server.
func TestManyFirstRequestsReadConfigurationsAtMostOnce(t *testing.T) {
	for name, test := range map[string]struct {
		token string
		edit  func(*certificatesv1.CertificateSigningRequest)
		// lists is how often KubeadmConfigs are listed in a turn.
		lists int
		// listing is the error of that list.
		listing error
		decided bool
	}{
		"of a token that nobody knows":            {token: "cccccc", lists: 1, decided: true},
		"of a KubeadmConfig's token":              {token: "bbbbbb", lists: 1, decided: true},
		"of a KOKConfig's token":                  {token: "aaaaaa", decided: true},
		"of a form that is denied":                {token: "cccccc", edit: func(r *certificatesv1.CertificateSigningRequest) { r.Spec.Usages = nil }, decided: true},
		"while the list fails":                    {token: "cccccc", lists: 1, listing: errors.New("too many requests")},
		"of a KOKConfig's token, while it fails":  {token: "aaaaaa", listing: errors.New("too many requests"), decided: true},
		"of an empty token, where one is unknown": {lists: 1, decided: true},
	} {
		t.Run(name, func(t *testing.T) {
			joined := machine(func(m *clusterv1.Machine) { m.Name = "w3" })
			management := []client.Object{cluster(func(*clusterv1.Cluster) {}), joiningMachine("w1"), joiningMachine("w2"), joined,
				kokConfig("w1", "aaaaaa"), kokConfig("w3", ""), kubeadmConfig("w2", "bbbbbb.0123456789abcdef")}
			made := firstRequest(t, test.token, "node-1")
			if test.edit != nil {
				test.edit(made)
			}
			r, tenant := between(t, management, many(requestsATurn+1, made)...)
			lists := 0
			r.APIReader = interceptor.NewClient(r.Client.(client.WithWatch), interceptor.Funcs{
				List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
					if _, is := list.(*kubeadmv1.KubeadmConfigList); is {
						lists++
						if test.listing != nil {
							return test.listing
						}
					}
					return c.List(ctx, list, options...)
				},
			})
			_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(management[0])})
			if (err == nil) != test.decided || (pending(t, tenant) == 1) != test.decided {
				t.Errorf("%d requests were not decided on: %v", pending(t, tenant), err)
			}
			if lists != test.lists {
				t.Errorf("KubeadmConfigs were listed %d times, want %d", lists, test.lists)
			}
		})
	}
}

// A namespace may have the configs of thousands of Clusters: to copy them all for each machine that joins takes a manager's time.
func TestConfigsOfOthersAreNotCopied(t *testing.T) {
	management := []client.Object{cluster(func(*clusterv1.Cluster) {}), joiningMachine("w1"), kokConfig("w1", "aaaaaa")}
	r, _ := between(t, management, firstRequest(t, "aaaaaa", "w1"))
	copied := 0
	r.Client = interceptor.NewClient(r.Client.(client.WithWatch), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if _, is := list.(*bootstrapv1.KOKConfigList); is && !slices.Contains(options, client.ListOption(client.UnsafeDisableDeepCopy)) {
				copied++
			}
			return c.List(ctx, list, options...)
		},
	})
	if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(management[0])}); err != nil {
		t.Fatal(err)
	}
	if copied > 0 {
		t.Errorf("all KOKConfigs of the namespace were copied %d times", copied)
	}
}
