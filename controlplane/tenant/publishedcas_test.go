package tenant

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// pemOf is a bundle of certificates, of which only the bytes count here.
func pemOf(certificates ...string) string { return bundleOf(certificates) }

func TestWhatIsPublishedFollowsThePhase(t *testing.T) {
	for name, test := range map[string]struct {
		published, wanted, dropped string
		left                       string
		waits                      bool
	}{
		"the new one is not there yet":              {pemOf("former"), pemOf("new"), "", pemOf("former"), true},
		"nothing is there yet":                      {"", pemOf("new"), "", "", true},
		"both are there":                            {pemOf("former", "new"), pemOf("new"), "", pemOf("former", "new"), false},
		"the former one goes":                       {pemOf("former", "new"), pemOf("new"), pemOf("former"), pemOf("new"), false},
		"the former one is gone":                    {pemOf("new"), pemOf("new"), pemOf("former"), pemOf("new"), false},
		"the former one stays without a new one":    {pemOf("former"), pemOf("new"), pemOf("former"), pemOf("former"), true},
		"all of a bundle go":                        {pemOf("first", "former", "new"), pemOf("new"), pemOf("former", "first"), pemOf("new"), false},
		"what others have added stays":              {pemOf("theirs", "former", "new"), pemOf("new"), pemOf("former"), pemOf("theirs", "new"), false},
		"what is written in another way goes, too":  {"a comment\n" + pemOf("former") + "\n\n" + pemOf("new"), pemOf("new"), pemOf("former"), pemOf("new"), false},
		"what is there twice goes as a whole":       {pemOf("former", "new", "former"), pemOf("new"), pemOf("former"), pemOf("new"), false},
		"what is no certificate does not stand for": {"new", pemOf("new"), "", "new", true},
	} {
		t.Run(name, func(t *testing.T) {
			const others = "client-ca-file"
			before := &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: PublishedCAs.Namespace, Name: PublishedCAs.Name},
				Data:       map[string]string{PublishedFrontProxyCAs: test.published, others: pemOf("former")},
			}
			tenant := fake.NewClientBuilder().WithObjects(before).Build()
			waits, err := EnsurePublished(t.Context(), tenant, PublishedFrontProxyCAs, []byte(test.wanted), []byte(test.dropped))
			if err != nil || (waits != "") != test.waits {
				t.Errorf("it waits %q: %v", waits, err)
			}
			after := &corev1.ConfigMap{}
			if err := tenant.Get(t.Context(), PublishedCAs, after); err != nil {
				t.Fatal(err)
			}
			if got := after.Data[PublishedFrontProxyCAs]; got != test.left {
				t.Errorf("left is %q, want %q", got, test.left)
			}
			if after.Data[others] != pemOf("former") {
				t.Error("another data key is another one")
			}
		})
	}
}

func TestWhatIsNotPublishedYetIsWaitedFor(t *testing.T) {
	tenant := fake.NewClientBuilder().Build()
	waits, err := EnsurePublished(t.Context(), tenant, PublishedFrontProxyCAs, []byte(pemOf("new")), []byte(pemOf("former")))
	if err != nil || !strings.Contains(waits, PublishedFrontProxyCAs) {
		t.Errorf("it waits %q: %v", waits, err)
	}
}

// Who administers a tenant may write anything there.
func FuzzPublishedCAs(f *testing.F) {
	f.Add(pemOf("former", "new"))
	f.Add("-----BEGIN CERTIFICATE-----")
	f.Fuzz(func(t *testing.T, published string) {
		read := certificatesOf([]byte(published))
		if again := certificatesOf([]byte(bundleOf(read))); strings.Join(again, "\n") != strings.Join(read, "\n") || len(again) != len(read) {
			t.Errorf("%q is read as %q, and written as %q", published, read, again)
		}
	})
}
