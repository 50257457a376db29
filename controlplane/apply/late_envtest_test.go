//go:build envtest

package apply

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// late is a client whose reads see one object as it was, or not at all for nil.
func late(t *testing.T, was *appsv1.Deployment) client.Client {
	t.Helper()
	inner, err := client.NewWithWatch(environment.Config, client.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	return interceptor.NewClient(inner, interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
			if was == nil {
				return apierrors.NewNotFound(schema.GroupResource{Group: "apps", Resource: "deployments"}, key.Name)
			}
			was.DeepCopyInto(object.(*appsv1.Deployment))
			_, err := Trim(object)
			return err
		},
	})
}

func TestAFieldThatSomebodyAddsWhileALateCacheIsRepairedFromIsPutBackLater(t *testing.T) {
	wanted := pick[*appsv1.Deployment](t, rendered(t, "default", namespace(t)), scheduler)
	first, _ := applier(t)
	mustApply(t, first, wanted)
	edited := func(change func(*appsv1.Deployment)) *appsv1.Deployment {
		t.Helper()
		d := current(t, wanted)
		change(d)
		if err := person.Update(t.Context(), d, client.FieldOwner("by-hand")); err != nil {
			t.Fatal(err)
		}
		return current(t, wanted)
	}
	was := edited(func(d *appsv1.Deployment) { delete(d.Labels, "app.kubernetes.io/component") })
	edited(func(d *appsv1.Deployment) { d.Spec.Template.Annotations = map[string]string{"added": "by hand"} })

	isLate := true
	stale, inner := late(t, was), first.client
	reads := interceptor.NewClient(stale.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if isLate {
				return c.Get(ctx, key, object, options...)
			}
			return inner.Get(ctx, key, object, options...)
		},
	})
	a := New(reads, person)
	mustApply(t, a, wanted) // It sees the label that is missing alone.
	isLate = false
	mustApply(t, a, wanted) // The event of the other edit brings it here.
	if annotations := current(t, wanted).Spec.Template.Annotations; annotations["added"] != "" {
		t.Errorf("what somebody added stays: %v", annotations)
	}
}

func TestALateCacheDoesNoHarm(t *testing.T) {
	type story struct {
		wanted, older *appsv1.Deployment
		a             *Applier
	}
	edited := func(t *testing.T, s story, change func(*appsv1.Deployment)) *appsv1.Deployment {
		t.Helper()
		d := current(t, s.wanted)
		change(d)
		if err := person.Update(t.Context(), d, client.FieldOwner("kubectl-edit")); err != nil {
			t.Fatal(err)
		}
		return current(t, s.wanted)
	}
	for name, test := range map[string]struct {
		// before gives what the late cache still sees, and leaves the object as it is wanted.
		before func(t *testing.T, s story) *appsv1.Deployment
		raced  bool
	}{
		"it does not have the object yet": {
			before: func(t *testing.T, s story) *appsv1.Deployment { mustApply(t, s.a, s.wanted); return nil },
		},
		"it has an older rendering": {
			before: func(t *testing.T, s story) *appsv1.Deployment {
				mustApply(t, s.a, s.older)
				was := current(t, s.older)
				mustApply(t, s.a, s.wanted)
				return was
			},
		},
		"it has a value that was put back since": {
			before: func(t *testing.T, s story) *appsv1.Deployment {
				mustApply(t, s.a, s.wanted)
				was := edited(t, s, func(d *appsv1.Deployment) { container(d).Image = "registry.example/evil" })
				mustApply(t, s.a, s.wanted)
				return was
			},
			raced: true,
		},
		"it has a field that was taken over since": {
			before: func(t *testing.T, s story) *appsv1.Deployment {
				mustApply(t, s.a, s.wanted)
				was := edited(t, s, func(d *appsv1.Deployment) { d.Spec.Template.Spec.NodeSelector["a"] = "b" })
				mustApply(t, s.a, s.wanted)
				return was
			},
			raced: true,
		},
		"the object was deleted and made again": {
			before: func(t *testing.T, s story) *appsv1.Deployment {
				mustApply(t, s.a, s.wanted)
				was := edited(t, s, func(d *appsv1.Deployment) { d.Spec.Template.Spec.NodeSelector["a"] = "b" })
				if err := person.Delete(t.Context(), was); err != nil {
					t.Fatal(err)
				}
				mustApply(t, s.a, s.wanted)
				return was
			},
			raced: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			wanted := pick[*appsv1.Deployment](t, rendered(t, "default", namespace(t)), scheduler)
			older := wanted.DeepCopy()
			container(older).Args = append(container(older).Args, "--v=1")
			a, _ := applier(t)
			was := test.before(t, story{wanted: wanted, older: older, a: a})
			before := current(t, wanted)

			_, err := New(late(t, was), person).Apply(t.Context(), wanted.DeepCopy())
			if raced := apierrors.IsConflict(err); raced != test.raced || err != nil && !raced {
				t.Errorf("err = %v", err)
			}
			after := current(t, wanted)
			if diff := cmp.Diff(content(t, before), content(t, after)); diff != "" {
				t.Errorf("it changed:\n%s", diff)
			}
			if after.UID != before.UID || after.Generation != before.Generation {
				t.Errorf("generation %d of %s became %d of %s", before.Generation, before.UID, after.Generation, after.UID)
			}
			if _, changed := mustApply(t, a, wanted); changed && after.ResourceVersion == before.ResourceVersion {
				t.Error("it does not settle")
			}
		})
	}
}

// Whatever changes our objects back, admission or another controller: the applier must come to rest.
func TestAWebhookIsNotFoughtForEver(t *testing.T) {
	a, noted := applier(t)
	objects := rendered(t, "default", namespace(t))
	mutateDeployments(t, objects[0].GetNamespace())
	wanted := pick[*appsv1.Deployment](t, objects, scheduler)

	live, _ := mustApply(t, a, wanted)
	if got := *live.(*appsv1.Deployment).Spec.Template.Spec.TerminationGracePeriodSeconds; got != 7 {
		t.Fatalf("the grace period is %d: admission did not change it", got)
	}
	noted.writes()
	for range 5 {
		mustApply(t, a, wanted)
	}
	if writes := noted.writes(); len(writes) != 0 {
		t.Errorf("a settled object took %v", writes)
	}

	generation := current(t, wanted).Generation
	for i := range int32(5) {
		d := current(t, wanted)
		d.Status.Replicas = i
		if err := person.Status().Update(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			mustApply(t, a, wanted)
		}
	}
	if writes := noted.writes(); len(writes) > 5 {
		t.Errorf("5 changes of the status took %v", writes)
	}
	if got := current(t, wanted).Generation; got != generation {
		t.Errorf("generation %d became %d: pods would have been restarted", generation, got)
	}

	edited := current(t, wanted)
	container(edited).Image = "registry.example/evil"
	if err := person.Update(t.Context(), edited, client.FieldOwner("kubectl-edit")); err != nil {
		t.Fatal(err)
	}
	mustApply(t, a, wanted)
	if got := container(current(t, wanted)).Image; got != container(wanted).Image {
		t.Errorf("beside a webhook an edit is not put back: the image is %s", got)
	}
}

// mutateDeployments makes the API server give pods of Deployments another grace period.
func mutateDeployments(t *testing.T, namespace string) {
	t.Helper()
	policy := &admissionv1.MutatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Spec: admissionv1.MutatingAdmissionPolicySpec{
			FailurePolicy:      ptr.To(admissionv1.Fail),
			ReinvocationPolicy: admissionv1.NeverReinvocationPolicy,
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
					Rule:       admissionv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}},
				},
			}}},
			Mutations: []admissionv1.Mutation{{
				PatchType:          admissionv1.PatchTypeApplyConfiguration,
				ApplyConfiguration: &admissionv1.ApplyConfiguration{Expression: `Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{terminationGracePeriodSeconds: 7}}}}`},
			}},
		},
	}
	binding := &admissionv1.MutatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Spec: admissionv1.MutatingAdmissionPolicyBindingSpec{
			PolicyName:     namespace,
			MatchResources: &admissionv1.MatchResources{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}}},
		},
	}
	for _, object := range []client.Object{policy, binding} {
		if err := person.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := person.Delete(context.Background(), object); err != nil {
				t.Error(err)
			}
		})
	}
	probe := pick[*appsv1.Deployment](t, rendered(t, "default", namespace), scheduler)
	probe.Name = "probe"
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 20*time.Second, true, func(ctx context.Context) (bool, error) {
		probed := probe.DeepCopy()
		err := person.Create(ctx, probed, client.DryRunAll)
		return err == nil && *probed.Spec.Template.Spec.TerminationGracePeriodSeconds == 7, err
	})
	if err != nil {
		t.Fatalf("wait until the API server admits with the policy: %v", err)
	}
}
