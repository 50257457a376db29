package workers

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/scheme"
)

// described is a KOKSoftware with one component, whose file has a digest.
func described(digest string) *bootstrapv1.KOKSoftware {
	s := &bootstrapv1.KOKSoftware{ObjectMeta: metav1.ObjectMeta{Namespace: "here", Name: "software-v1.36.3"}}
	s.Spec.Installers = []bootstrapv1.SoftwareInstaller{{Architecture: "amd64", URLs: []string{"https://example.com/installer"}, SHA256: "1"}}
	s.Spec.Components = []bootstrapv1.SoftwareComponent{{
		Name: "kubelet", Variants: []bootstrapv1.SoftwareVariant{{Archive: bootstrapv1.SoftwareArchive{URLs: []string{"https://example.com/kubelet"}, SHA256: digest}}},
	}}
	return s
}

func TestAKOKSoftwareStaysUntilItSaysSomethingElse(t *testing.T) {
	withMore := described("a")
	withMore.Spec.Components = append(withMore.Spec.Components, bootstrapv1.SoftwareComponent{Name: "runc"})
	for name, test := range map[string]struct {
		before, now *bootstrapv1.KOKSoftware
		// by is a person who made the one before, and not this program.
		by, kept bool
	}{
		"there is none":                      {now: described("a")},
		"it says the same":                   {before: described("a"), now: described("a"), kept: true},
		"a file is another one":              {before: described("b"), now: described("a")},
		"it has a component that is no more": {before: withMore, now: described("a")},
		"it lacks a component that there is": {before: described("a"), now: withMore},
		"a person made it":                   {before: described("a"), now: described("a"), by: true},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, c := t.Context(), fake.NewClientBuilder().WithScheme(scheme.Scheme()).Build()
			if test.before != nil {
				before := test.before.DeepCopy()
				before.UID = "before"
				create := func() error { return EnsureSoftware(ctx, c, before) }
				if test.by {
					create = func() error { return c.Create(ctx, before) }
				}
				if err := create(); err != nil {
					t.Fatal(err)
				}
			}
			if err := EnsureSoftware(ctx, c, test.now.DeepCopy()); err != nil {
				t.Fatal(err)
			}
			there := &bootstrapv1.KOKSoftware{}
			if err := c.Get(ctx, client.ObjectKeyFromObject(test.now), there); err != nil {
				t.Fatal(err)
			}
			if kept := there.UID == "before"; kept != test.kept {
				t.Errorf("it is the one from before: %t", kept)
			}
			if diff := cmp.Diff(test.now.Spec, there.Spec); diff != "" {
				t.Error(diff)
			}
		})
	}
}
