package tenant

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func TestAPanicOfOneObjectIsAnErrorAndOthersAreApplied(t *testing.T) {
	tenant := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if key.Name == "faulty" {
				panic(new(int))
			}
			return c.Get(ctx, key, object, options...)
		},
	})
	var objects []client.Object
	for _, name := range []string{"faulty", "sound"} {
		objects = append(objects, &corev1.ConfigMap{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Namespace: "kube-public", Name: name},
		})
	}
	changed, err := Apply(t.Context(), tenant, objects)
	if !changed || err == nil || err.Error() != "applying an object of the tenant panicked; the manager's log has the stack" {
		t.Errorf("changed %t, err %v", changed, err)
	}
}
