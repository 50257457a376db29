package history

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
)

// An earlier spec, which a cache still shows, would be recorded as a change that nobody made.
func TestASpecThatIsLateIsNotRecorded(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{controlplanev1.AddToScheme, appsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct {
		cached int64
		want   int
	}{
		"the present spec": {cached: 2, want: 1},
		"an earlier spec":  {cached: 1, want: 0},
	} {
		t.Run(name, func(t *testing.T) {
			of := &controlplanev1.KOKControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "blue", Generation: 2}}
			c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(of).Build()
			cached := of.DeepCopy()
			cached.Generation = test.cached
			decision := Decision{Make: &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "blue-spec-1"}}}
			result := (&Keeper{Client: c, Live: c}).Record(t.Context(), cached, &decision)
			made := &appsv1.ControllerRevisionList{}
			if err := c.List(t.Context(), made); err != nil || len(made.Items) != test.want || (test.want == 0) != (result.Waiting() != "") {
				t.Errorf("%d revisions were made (%v), and the step waits for %q", len(made.Items), err, result.Waiting())
			}
		})
	}
}
