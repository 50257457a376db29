//go:build envtest

package apply

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Every object that a component renders is applied once and then costs nothing: what the API server
// defaults or allocates is no drift, neither for the program that applied it nor for the next one.
func TestWhatWasAppliedIsNotWrittenAgain(t *testing.T) {
	cached, noted := cachedClient(t)
	for _, variant := range variants(t) {
		t.Run(variant, func(t *testing.T) {
			objects := rendered(t, variant, namespace(t))
			first, restarted := New(cached, person), New(cached, person)
			for _, object := range objects {
				if _, changed := mustApply(t, first, object); !changed {
					t.Errorf("%T %s was not written", object, object.GetName())
				}
			}
			if n := len(noted.writes()); n != len(objects) {
				t.Errorf("%d objects took %d writes", len(objects), n)
			}
			for _, object := range objects {
				seen(t, cached, object)
			}
			for name, applier := range map[string]*Applier{"the same program": first, "a new one": restarted} {
				for _, object := range objects {
					live, changed := mustApply(t, applier, object)
					if changed {
						t.Errorf("%s wrote %T %s again", name, object, object.GetName())
					}
					if live.GetResourceVersion() == "" {
						t.Errorf("%s got no live %T %s", name, object, object.GetName())
					}
				}
			}
			if writes := noted.writes(); len(writes) > 0 {
				t.Errorf("writes: %v", writes)
			}
		})
	}
}

func TestApplyReturnsWhatTheServerMadeOfIt(t *testing.T) {
	a, _ := applier(t)
	service := pick[*corev1.Service](t, rendered(t, "default", namespace(t)), "blue-kube-apiserver")
	live, _ := mustApply(t, a, service)
	if live.(*corev1.Service).Spec.ClusterIP == "" || live.GetUID() == "" {
		t.Errorf("got address %q, UID %q", live.(*corev1.Service).Spec.ClusterIP, live.GetUID())
	}
}

func TestWhatOthersMayWriteCausesNoWrite(t *testing.T) {
	for name, write := range map[string]func(t *testing.T, set *appsv1.StatefulSet) error{
		"the status": func(t *testing.T, set *appsv1.StatefulSet) error {
			set.Status = appsv1.StatefulSetStatus{ObservedGeneration: set.Generation, Replicas: 3, ReadyReplicas: 2, CurrentRevision: "a", UpdateRevision: "b"}
			return person.Status().Update(t.Context(), set, client.FieldOwner("kube-controller-manager"))
		},
		"the scale to what it is": func(t *testing.T, set *appsv1.StatefulSet) error {
			scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: *set.Spec.Replicas}}
			return person.SubResource("scale").Update(t.Context(), set, client.WithSubResourceBody(scale), client.FieldOwner("kubectl"))
		},
		"labels and annotations of their own": func(t *testing.T, set *appsv1.StatefulSet) error {
			set.Labels["team"] = "blue"
			set.Annotations["example.com/note"] = "do not touch"
			return person.Update(t.Context(), set, client.FieldOwner("kubectl-label"))
		},
		"a finalizer of their own": func(t *testing.T, set *appsv1.StatefulSet) error {
			set.Finalizers = append(set.Finalizers, "example.com/wait")
			return person.Update(t.Context(), set, client.FieldOwner("other-controller"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, noted := applier(t)
			wanted := pick[*appsv1.StatefulSet](t, rendered(t, "default", namespace(t)), "blue-etcd-data")
			mustApply(t, a, wanted)
			if err := write(t, current(t, wanted)); err != nil {
				t.Fatal(err)
			}
			before := current(t, wanted)
			noted.writes()
			if _, changed := mustApply(t, a, wanted); changed || len(noted.writes()) > 0 {
				t.Error("it was written")
			}
			if after := current(t, wanted); after.ResourceVersion != before.ResourceVersion {
				t.Error("it changed")
			}
		})
	}
}

// A field that a newer rendering no longer has goes away; nobody else's does.
func TestANewRenderingReplacesTheOldOne(t *testing.T) {
	a, noted := applier(t)
	objects := rendered(t, "customised", namespace(t))
	old := pick[*appsv1.Deployment](t, objects, "blue-kube-scheduler")
	old.Labels["old"] = "true"
	old.Spec.Template.Annotations = map[string]string{"old": "true"}
	old.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "OLD", Value: "true"}, {Name: "KEPT", Value: "true"}}
	mustApply(t, a, old)
	labelled := current(t, old)
	labelled.Labels["team"] = "blue"
	if err := person.Update(t.Context(), labelled, client.FieldOwner("kubectl-label")); err != nil {
		t.Fatal(err)
	}

	wanted := old.DeepCopy()
	delete(wanted.Labels, "old")
	wanted.Spec.Template.Annotations = nil
	wanted.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "KEPT", Value: "true"}}
	wanted.Spec.Template.Spec.Containers[0].Args = old.Spec.Template.Spec.Containers[0].Args[1:]
	wanted.Spec.Template.Spec.Containers[0].Resources = corev1.ResourceRequirements{}
	wanted.Spec.Template.Spec.NodeSelector = map[string]string{"pool": "control-planes"}
	wanted.Spec.Template.Spec.Volumes = old.Spec.Template.Spec.Volumes[:2]
	wanted.Spec.Template.Spec.Containers[0].VolumeMounts = old.Spec.Template.Spec.Containers[0].VolumeMounts[:2]
	noted.writes()
	if _, changed := mustApply(t, a, wanted); !changed {
		t.Error("nothing was written")
	}
	if n := len(noted.writes()); n != 1 {
		t.Errorf("took %d writes", n)
	}

	live := current(t, wanted)
	pod, container := live.Spec.Template.Spec, live.Spec.Template.Spec.Containers[0]
	for what, wrong := range map[string]bool{
		"a label stayed":                  live.Labels["old"] != "",
		"another's label went":            live.Labels["team"] != "blue",
		"an annotation of the pod stayed": len(live.Spec.Template.Annotations) != 0,
		"a variable stayed, or both went": len(container.Env) != 1 || container.Env[0].Name != "KEPT",
		"an argument stayed":              len(container.Args) != len(wanted.Spec.Template.Spec.Containers[0].Args),
		"resources stayed":                len(container.Resources.Requests)+len(container.Resources.Limits) != 0,
		"a key of the selector stayed":    len(pod.NodeSelector) != 1,
		"volumes stayed":                  len(pod.Volumes) != 2 || len(container.VolumeMounts) != 2,
	} {
		if wrong {
			t.Error(what)
		}
	}
	if _, changed := mustApply(t, a, wanted); changed {
		t.Error("it does not settle")
	}
}

func TestAServiceKeepsItsAddress(t *testing.T) {
	a, _ := applier(t)
	wanted := pick[*corev1.Service](t, rendered(t, "default", namespace(t)), "blue-etcd-data-0")
	live, _ := mustApply(t, a, wanted)
	address := live.(*corev1.Service).Spec.ClusterIP
	if address == "" {
		t.Fatal("it got no address")
	}
	recorded := wanted.DeepCopy()
	recorded.Spec.ClusterIP = address
	widened := wanted.DeepCopy()
	widened.Spec.Ports = append(widened.Spec.Ports, corev1.ServicePort{Name: "more", Protocol: corev1.ProtocolTCP, Port: 20099})
	for _, step := range []struct {
		name    string
		service *corev1.Service
	}{
		{"applied again", wanted},
		{"applied with the recorded address, as by a controller whose cache is late", recorded},
		{"applied without it", wanted},
		{"changed", widened},
		{"changed back", wanted},
	} {
		live, _ := mustApply(t, a, step.service)
		if got := live.(*corev1.Service).Spec.ClusterIP; got != address {
			t.Fatalf("%s, its address is %q and was %q", step.name, got, address)
		}
	}

	if err := person.Delete(t.Context(), current(t, wanted)); err != nil {
		t.Fatal(err)
	}
	live, _ = mustApply(t, a, recorded)
	if got := live.(*corev1.Service).Spec.ClusterIP; got != address {
		t.Errorf("deleted and made again, its address is %q and was %q", got, address)
	}
}

func TestADeletedObjectIsMadeAgain(t *testing.T) {
	a, _ := applier(t)
	wanted := pick[*appsv1.DaemonSet](t, rendered(t, "default", namespace(t)), "blue-kube-apiserver")
	first, _ := mustApply(t, a, wanted)
	if err := person.Delete(t.Context(), current(t, wanted)); err != nil {
		t.Fatal(err)
	}
	live, changed := mustApply(t, a, wanted)
	if !changed || live.GetUID() == first.GetUID() {
		t.Error("it was not made again")
	}
}
