package csr_test

import (
	"context"
	"crypto/x509"
	"errors"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	certificatesclient "k8s.io/client-go/kubernetes/typed/certificates/v1"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/nodekeys/csr"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/nodekeys/internal/nodetest"
)

// tenant has the last request.
type tenant struct {
	certificatesclient.CertificateSigningRequestInterface
	created int
	live    *certificatesv1.CertificateSigningRequest
	refuses error
}

func (f *tenant) Create(_ context.Context, request *certificatesv1.CertificateSigningRequest, _ metav1.CreateOptions) (*certificatesv1.CertificateSigningRequest, error) {
	f.created++
	f.live = request.DeepCopy()
	f.live.Name = "one"
	return f.live.DeepCopy(), nil
}

func (f *tenant) Get(context.Context, string, metav1.GetOptions) (*certificatesv1.CertificateSigningRequest, error) {
	if f.live == nil {
		return nil, apierrors.NewNotFound(schema.GroupResource{}, "one")
	}
	return f.live.DeepCopy(), nil
}

func (f *tenant) set(kind certificatesv1.RequestConditionType, message string) {
	f.live.Status.Conditions = append(f.live.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{Type: kind, Message: message})
}

func TestAsk(t *testing.T) {
	former, next := nodetest.NewCA(t), nodetest.NewCA(t)
	for name, test := range map[string]struct {
		answer func(f *tenant)
		// waits is a part of what is waited for; empty when the pair is there.
		waits string
		// again is true when another request is made, later.
		again bool
	}{
		"not approved yet": {func(*tenant) {}, "waits to be approved", false},
		"not signed yet": {func(f *tenant) {
			f.set(certificatesv1.CertificateApproved, "")
		}, "waits for the tenant's kube-controller-manager to sign it", false},
		"denied":                       {func(f *tenant) { f.set(certificatesv1.CertificateDenied, "not this one") }, "is Denied: not this one", true},
		"failed":                       {func(f *tenant) { f.set(certificatesv1.CertificateFailed, "no key") }, "is Failed: no key", true},
		"gone":                         {func(f *tenant) { f.live = nil }, "is gone", true},
		"another one of the same name": {func(f *tenant) { f.live.UID = "2" }, "is gone", true},
		"signed by the former CA":      {func(f *tenant) { f.live.Status.Certificate = former.Sign(t, f.live.Spec.Request) }, "does not sign by that one yet", true},
		"a certificate of another key": {func(f *tenant) {
			f.live.Status.Certificate = next.Pair(t, nodetest.Node, &x509.CertificateRequest{})
		}, "private key does not match", true},
		"no certificate": {func(f *tenant) { f.live.Status.Certificate = []byte("?") }, "is thrown away", true},
		"API servers refuse the certificate": {func(f *tenant) {
			f.live.Status.Certificate, f.refuses = next.Sign(t, f.live.Spec.Request), errors.New("Unauthorized")
		}, "the API server does not take the certificate", true},
		"signed": {func(f *tenant) { f.live.Status.Certificate = next.Sign(t, f.live.Spec.Request) }, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			api, now := &tenant{}, testingclock.NewFakePassiveClock(time.Now())
			requests := &csr.Requests{Clock: now, Connect: func(with *csr.Pair) (certificatesclient.CertificateSigningRequestInterface, error) {
				if with != nil && api.refuses != nil {
					return nil, errors.Join(errors.New("the API server does not take the certificate"), api.refuses)
				}
				return api, nil
			}}
			order := csr.Order{Purpose: csr.Client, Subject: nodetest.Subject(nodetest.Node), By: next.Certificate}
			ask := func() (*csr.Pair, string) {
				t.Helper()
				pair, waits, err := requests.Ask(t.Context(), order)
				nodetest.Must(t, err)
				return pair, waits
			}
			if pair, waits := ask(); pair != nil || waits == "" || api.created != 1 {
				t.Fatalf("the first time there are %v, %q and %d requests", pair, waits, api.created)
			}
			if got := api.live.Spec; got.SignerName != certificatesv1.KubeAPIServerClientKubeletSignerName || len(got.Usages) != 2 {
				t.Errorf("asked for %+v", got)
			}
			test.answer(api)
			pair, waits := ask()
			if (test.waits == "") != (pair != nil) || !strings.Contains(waits, test.waits) {
				t.Fatalf("got %v, waits for %q, want %q", pair, waits, test.waits)
			}
			if test.waits == "" {
				return
			}
			if _, still := ask(); api.created != 1 || still != waits {
				t.Errorf("at once %d requests were made, and it waits for %q", api.created, still)
			}
			now.SetTime(now.Now().Add(6 * time.Second))
			ask()
			if want := map[bool]int{true: 2, false: 1}[test.again]; api.created != want {
				t.Errorf("%d requests were made, want %d", api.created, want)
			}
		})
	}
}

func TestRequestsThatAreSignedByAnotherCAComeLessOften(t *testing.T) {
	former, next := nodetest.NewCA(t), nodetest.NewCA(t)
	api, now := &tenant{}, testingclock.NewFakePassiveClock(time.Now())
	requests := &csr.Requests{Clock: now, Connect: func(*csr.Pair) (certificatesclient.CertificateSigningRequestInterface, error) { return api, nil }}
	order := csr.Order{Purpose: csr.Client, Subject: nodetest.Subject(nodetest.Node), By: next.Certificate}
	for range 10 * 60 { // ten minutes
		_, _, err := requests.Ask(t.Context(), order)
		nodetest.Must(t, err)
		if len(api.live.Status.Certificate) == 0 {
			api.live.Status.Certificate = former.Sign(t, api.live.Spec.Request)
		}
		now.SetTime(now.Now().Add(time.Second))
	}
	if api.created < 10 || api.created > 15 {
		t.Errorf("%d requests in ten minutes, want about one a minute", api.created)
	}
}
