package standin

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/loopback"
)

// asTenant serves one tenant, and has a client that sends what typed clients send.
func asTenant(t *testing.T) (*Tenant, kubernetes.Interface) {
	t.Helper()
	kinds := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"APIVersions","versions":["v1"]}`))
	}))
	t.Cleanup(kinds.Close)
	tenants, err := NewTenants(&rest.Config{Host: kinds.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tenants.Stop() })
	certificate, key := selfSigned(t)
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	address := loopback.Free(t).String()
	tenant, err := tenants.Add(address, pair)
	if err != nil {
		t.Fatal(err)
	}
	access := &rest.Config{Host: "https://" + address, TLSClientConfig: rest.TLSClientConfig{Insecure: true, CertData: certificate, KeyData: key}}
	access.ContentType = "application/vnd.kubernetes.protobuf"
	access.AcceptContentTypes = "application/json"
	client, err := kubernetes.NewForConfig(access)
	if err != nil {
		t.Fatal(err)
	}
	return tenant, client
}

func TestATenantKeepsWhatTypedClientsWriteAndRefusesWhatIsOld(t *testing.T) {
	tenant, client := asTenant(t)
	secrets := client.CoreV1().Secrets("kube-system")
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Data: map[string][]byte{"a": []byte("1")}}
	made, err := secrets.Create(t.Context(), secret, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := secrets.Create(t.Context(), secret, metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		t.Errorf("it is made twice: %v", err)
	}
	made.Data["a"] = []byte("2")
	if _, err := secrets.Update(t.Context(), made, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := secrets.Update(t.Context(), made, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("an old one is taken: %v", err)
	}
	kept := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "a"}}
	if there, err := tenant.Get(kept); !there || err != nil || string(kept.Data["a"]) != "2" {
		t.Errorf("it is there: %t, %v: %s", there, err, kept.Data)
	}
	if _, err := client.Discovery().ServerGroups(); err != nil {
		t.Errorf("it answers nothing about kinds: %v", err)
	}
}

func TestATenantTellsWhatIsThereAndWhatComes(t *testing.T) {
	tenant, client := asTenant(t)
	request := func(name string) *certificatesv1.CertificateSigningRequest {
		return &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	if err := tenant.Put(request("first")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	watching, err := client.CertificatesV1().CertificateSigningRequests().Watch(ctx, metav1.ListOptions{
		SendInitialEvents: ptr.To(true), AllowWatchBookmarks: true, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer watching.Stop()
	next := func(kind watch.EventType, name string) {
		t.Helper()
		event := <-watching.ResultChan()
		is, ok := event.Object.(*certificatesv1.CertificateSigningRequest)
		if !ok || event.Type != kind || is.Name != name {
			t.Errorf("it tells %s of %+v, not %s of %q", event.Type, event.Object, kind, name)
		}
	}
	next(watch.Added, "first")
	next(watch.Bookmark, "")
	if !tenant.Watched() {
		t.Error("nobody watches it")
	}
	approved := request("first")
	approved.ResourceVersion = "1"
	if _, err := client.CertificatesV1().CertificateSigningRequests().UpdateApproval(ctx, "first", approved, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	next(watch.Modified, "first")
	if err := tenant.Put(request("second")); err != nil {
		t.Fatal(err)
	}
	next(watch.Added, "second")
	if err := client.CertificatesV1().CertificateSigningRequests().Delete(ctx, "first", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	next(watch.Deleted, "first")
}
