//go:build envtest

package apply

import (
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// edit is what a person does to one of the rendered objects.
type edit struct {
	object client.Object
	name   string
	change func(client.Object)
}

func on[T client.Object](name string, change func(T)) edit {
	var object T
	return edit{object: object, name: name, change: func(o client.Object) { change(o.(T)) }}
}

const (
	dataEtcd  = "blue-etcd-data"
	apiserver = "blue-kube-apiserver"
	scheduler = "blue-kube-scheduler"
)

var edits = map[string]edit{
	"another image":            on(scheduler, func(d *appsv1.Deployment) { container(d).Image = "registry.example/evil" }),
	"an argument changed":      on(scheduler, func(d *appsv1.Deployment) { container(d).Args[0] = "--v=9" }),
	"an argument added":        on(scheduler, func(d *appsv1.Deployment) { container(d).Args = append(container(d).Args, "--v=9") }),
	"an argument removed":      on(scheduler, func(d *appsv1.Deployment) { container(d).Args = container(d).Args[1:] }),
	"a variable added":         on(scheduler, func(d *appsv1.Deployment) { container(d).Env = []corev1.EnvVar{{Name: "A", Value: "b"}} }),
	"resources removed":        on(scheduler, func(d *appsv1.Deployment) { container(d).Resources = corev1.ResourceRequirements{} }),
	"a limit added":            on(scheduler, func(d *appsv1.Deployment) { container(d).Resources.Limits = container(d).Resources.Requests }),
	"a probe removed":          on(scheduler, func(d *appsv1.Deployment) { container(d).LivenessProbe = nil }),
	"a privilege added":        on(scheduler, func(d *appsv1.Deployment) { container(d).SecurityContext.ReadOnlyRootFilesystem = ptr.To(false) }),
	"a volume and mount added": on(scheduler, addVolume),
	"a sidecar added": on(scheduler, func(d *appsv1.Deployment) {
		d.Spec.Template.Spec.Containers = append(d.Spec.Template.Spec.Containers, corev1.Container{Name: "sidecar", Image: "registry.example/sidecar"})
	}),
	"a label of the pods added":        on(scheduler, func(d *appsv1.Deployment) { d.Spec.Template.Labels["a"] = "b" }),
	"a label of the pods removed":      on(scheduler, func(d *appsv1.Deployment) { delete(d.Spec.Template.Labels, names.VersionLabel) }),
	"an annotation of the pods added":  on(scheduler, restartedAt),
	"a key of the node selector added": on(scheduler, func(d *appsv1.Deployment) { d.Spec.Template.Spec.NodeSelector["a"] = "b" }),
	"a toleration added": on(scheduler, func(d *appsv1.Deployment) {
		d.Spec.Template.Spec.Tolerations = append(d.Spec.Template.Spec.Tolerations, corev1.Toleration{Operator: corev1.TolerationOpExists})
	}),
	"a toleration removed":                   on(scheduler, func(d *appsv1.Deployment) { d.Spec.Template.Spec.Tolerations = d.Spec.Template.Spec.Tolerations[1:] }),
	"another grace period":                   on(scheduler, func(d *appsv1.Deployment) { d.Spec.Template.Spec.TerminationGracePeriodSeconds = ptr.To[int64](0) }),
	"another strategy":                       on(scheduler, func(d *appsv1.Deployment) { d.Spec.Strategy.RollingUpdate.MaxUnavailable = ptr.To(intstr.FromInt32(2)) }),
	"paused":                                 on(scheduler, func(d *appsv1.Deployment) { d.Spec.Paused = true }),
	"another default":                        on(scheduler, func(d *appsv1.Deployment) { d.Spec.ProgressDeadlineSeconds = ptr.To[int32](5) }),
	"our labels removed":                     on(scheduler, func(d *appsv1.Deployment) { d.Labels = nil }),
	"our label changed":                      on(scheduler, func(d *appsv1.Deployment) { d.Labels[names.ManagedByLabel] = "me" }),
	"our annotation gone":                    on(scheduler, func(d *appsv1.Deployment) { delete(d.Annotations, RenderingAnnotation) }),
	"another update strategy of a DaemonSet": on(apiserver, func(d *appsv1.DaemonSet) { d.Spec.UpdateStrategy.Type = appsv1.OnDeleteDaemonSetStrategyType }),
	"fewer members":                          on(dataEtcd, func(s *appsv1.StatefulSet) { s.Spec.Replicas = ptr.To[int32](1) }),
	"a partition":                            on(dataEtcd, addPartition),
	"a rolling update of a StatefulSet":      on(dataEtcd, func(s *appsv1.StatefulSet) { s.Spec.UpdateStrategy.Type = appsv1.RollingUpdateStatefulSetStrategyType }),
	"data in a ConfigMap changed":            on(apiserver+"-config", func(c *corev1.ConfigMap) { c.Data["authentication.yaml"] = "anonymous: {}" }),
	"data in a ConfigMap added":              on(apiserver+"-config", func(c *corev1.ConfigMap) { c.Data["more.yaml"] = "a" }),
	"data in a ConfigMap removed":            on(apiserver+"-config", func(c *corev1.ConfigMap) { c.Data = nil }),
	"binary data in a ConfigMap":             on(apiserver+"-config", func(c *corev1.ConfigMap) { c.BinaryData = map[string][]byte{"a": {1}} }),
	"another selector of a Service": on(apiserver, func(s *corev1.Service) {
		s.Spec.Selector = map[string]string{"app": "evil"}
	}),
	"a key of a Service's selector added": on(apiserver, func(s *corev1.Service) { s.Spec.Selector["a"] = "b" }),
	"another port of a Service":           on(apiserver, func(s *corev1.Service) { s.Spec.Ports[0].TargetPort = intstr.FromInt32(22) }),
	"a port of a Service added": on(apiserver, func(s *corev1.Service) {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "a", Port: 22, Protocol: corev1.ProtocolTCP})
	}),
	"a Service exposed":    on(apiserver, func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeNodePort }),
	"an external address":  on(apiserver, func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"192.0.2.1"} }),
	"a budget without use": on(dataEtcd, func(b *policyv1.PodDisruptionBudget) { b.Spec.MaxUnavailable = ptr.To(intstr.FromString("100%")) }),
}

func container(d *appsv1.Deployment) *corev1.Container { return &d.Spec.Template.Spec.Containers[0] }

func addVolume(d *appsv1.Deployment) {
	d.Spec.Template.Spec.Volumes = append(d.Spec.Template.Spec.Volumes, corev1.Volume{Name: "a"})
	container(d).VolumeMounts = append(container(d).VolumeMounts, corev1.VolumeMount{Name: "a", MountPath: "/a"})
}

// restartedAt is what kubectl rollout restart does.
func restartedAt(d *appsv1.Deployment) {
	d.Spec.Template.Annotations = map[string]string{"kubectl.kubernetes.io/restartedAt": "2026-01-02T03:04:05Z"}
}

func addPartition(s *appsv1.StatefulSet) {
	s.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{
		Type: appsv1.RollingUpdateStatefulSetStrategyType, RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: ptr.To[int32](2)},
	}
}

// writers are the two ways in which others write.
var writers = map[string]func(t *testing.T, edited client.Object) error{
	"update": func(t *testing.T, edited client.Object) error {
		return person.Update(t.Context(), edited, client.FieldOwner("kubectl-edit"))
	},
	"server-side apply": func(t *testing.T, edited client.Object) error {
		fields, err := toUnstructured(edited)
		if err != nil {
			return err
		}
		fields.SetManagedFields(nil)
		fields.SetResourceVersion("")
		fields.SetUID("")
		fields.SetGeneration(0)
		return person.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(fields), client.FieldOwner("gitops"), client.ForceOwnership)
	},
}

func TestWhatAPersonEditedIsPutBack(t *testing.T) {
	for name, edit := range edits {
		for how, write := range writers {
			t.Run(name+" by "+how, func(t *testing.T) {
				t.Parallel()
				a, noted := applier(t)
				wanted := find(t, rendered(t, "default", namespace(t)), edit)
				mustApply(t, a, wanted)
				applied, edited := current(t, wanted), current(t, wanted)
				edited.GetObjectKind().SetGroupVersionKind(wanted.GetObjectKind().GroupVersionKind())
				edit.change(edited)
				if err := write(t, edited); err != nil {
					t.Fatal(err)
				}

				mustApply(t, a, wanted)
				live := current(t, wanted)
				if diff := cmp.Diff(content(t, applied), content(t, live)); diff != "" {
					t.Errorf("it is not as it was (-was +is):\n%s", diff)
				}
				onlyOurs(t, live)
				if live.GetUID() != applied.GetUID() {
					t.Error("it was made anew")
				}
				noted.writes()
				if _, changed := mustApply(t, a, wanted); changed || len(noted.writes()) > 0 {
					t.Error("it does not settle")
				}
				restarted, _ := applier(t)
				if _, changed := mustApply(t, restarted, wanted); changed {
					t.Error("it does not settle for a new program")
				}
			})
		}
	}
}

func find(t *testing.T, objects []client.Object, edit edit) client.Object {
	t.Helper()
	for _, object := range objects {
		if object.GetName() == edit.name && reflect.TypeOf(object) == reflect.TypeOf(edit.object) {
			return object
		}
	}
	t.Fatalf("no %T %s was rendered", edit.object, edit.name)
	return nil
}

// content is everything of an object that its rendering may say.
func content(t *testing.T, object client.Object) map[string]any {
	t.Helper()
	fields, err := toUnstructured(object)
	if err != nil {
		t.Fatal(err)
	}
	delete(fields.Object, "kind")
	delete(fields.Object, "apiVersion")
	fields.Object["metadata"] = map[string]any{"labels": fields.GetLabels(), "annotations": fields.GetAnnotations()}
	return fields.Object
}

// onlyOurs fails when another manager owns content.
func onlyOurs(t *testing.T, object client.Object) {
	t.Helper()
	for _, entry := range object.GetManagedFields() {
		if foreign, err := ownsContent(entry); err != nil || foreign {
			t.Errorf("%s (%s) owns content: %s, %v", entry.Manager, entry.Operation, entry.FieldsV1, err)
		}
	}
	if !slices.ContainsFunc(object.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
		return entry.Manager == names.FieldManager && entry.Operation == metav1.ManagedFieldsOperationApply
	}) {
		t.Error("we own nothing")
	}
}

// A controller of load balancers writes an annotation, a label and a field of the spec at once. Without the annotation it
// chooses another address, and writes again.
func TestMetadataOfOthersStayWhenTheirContentGoes(t *testing.T) {
	for how, write := range writers {
		t.Run(how, func(t *testing.T) {
			a, noted := applier(t)
			wanted := pick[*corev1.Service](t, rendered(t, "load-balancer", namespace(t)), apiserver)
			mustApply(t, a, wanted)
			applied, edited := current(t, wanted), current(t, wanted)
			edited.GetObjectKind().SetGroupVersionKind(wanted.GroupVersionKind())
			edited.Annotations["kube-vip.io/loadbalancerIPs"] = "192.0.2.7"
			edited.Labels["implementation"] = "kube-vip"
			edited.Labels[names.ManagedByLabel] = "me"
			edited.Finalizers = append(edited.Finalizers, "example.com/wait")
			edited.Spec.LoadBalancerIP = "192.0.2.7"
			if err := write(t, edited); err != nil {
				t.Fatal(err)
			}

			mustApply(t, a, wanted)
			live := current(t, wanted)
			if diff := cmp.Diff(applied.Spec, live.Spec); diff != "" {
				t.Errorf("the spec is not as it was (-was +is):\n%s", diff)
			}
			onlyOurs(t, live)
			if live.Annotations["kube-vip.io/loadbalancerIPs"] != "192.0.2.7" || live.Labels["implementation"] != "kube-vip" || !slices.Equal(live.Finalizers, edited.Finalizers) {
				t.Errorf("metadata of others went: annotations %v, labels %v, finalizers %v", live.Annotations, live.Labels, live.Finalizers)
			}
			if live.Labels[names.ManagedByLabel] != applied.Labels[names.ManagedByLabel] {
				t.Errorf("our label stays %q", live.Labels[names.ManagedByLabel])
			}
			noted.writes()
			if _, changed := mustApply(t, a, wanted); changed || len(noted.writes()) > 0 || current(t, wanted).ResourceVersion != live.ResourceVersion {
				t.Error("it does not settle")
			}
		})
	}
}

// One manager may write in two ways, and has an entry for each.
func TestWhatOneManagerWroteInTwoWaysIsPutBack(t *testing.T) {
	a, _ := applier(t)
	wanted := pick[*corev1.ConfigMap](t, rendered(t, "default", namespace(t)), apiserver+"-config")
	mustApply(t, a, wanted)
	applied := current(t, wanted)
	added := &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{"applied.yaml": "a"}}}
	added.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	added.SetNamespace(wanted.Namespace)
	added.SetName(wanted.Name)
	if err := person.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(added), client.FieldOwner("gitops")); err != nil {
		t.Fatal(err)
	}
	edited := current(t, wanted)
	edited.Data["updated.yaml"] = "b"
	if err := person.Update(t.Context(), edited, client.FieldOwner("gitops")); err != nil {
		t.Fatal(err)
	}
	mustApply(t, a, wanted)
	if diff := cmp.Diff(content(t, applied), content(t, current(t, wanted))); diff != "" {
		t.Errorf("it is not as it was (-was +is):\n%s", diff)
	}
}

// A field that excludes one of ours cannot be applied by another; it can be updated.
func TestAFieldThatExcludesOursIsPutBack(t *testing.T) {
	for name, edit := range map[string]edit{
		"a budget of minAvailable": on(dataEtcd, func(b *policyv1.PodDisruptionBudget) {
			b.Spec.MaxUnavailable, b.Spec.MinAvailable = nil, ptr.To(intstr.FromInt32(0))
		}),
		"the strategy Recreate": on(scheduler, func(d *appsv1.Deployment) {
			d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
		}),
	} {
		t.Run(name, func(t *testing.T) {
			a, _ := applier(t)
			wanted := find(t, rendered(t, "default", namespace(t)), edit)
			mustApply(t, a, wanted)
			applied, edited := current(t, wanted), current(t, wanted)
			edit.change(edited)
			if err := person.Update(t.Context(), edited, client.FieldOwner("kubectl-edit")); err != nil {
				t.Fatal(err)
			}
			mustApply(t, a, wanted)
			if diff := cmp.Diff(content(t, applied), content(t, current(t, wanted))); diff != "" {
				t.Errorf("it is not as it was (-was +is):\n%s", diff)
			}
			if _, changed := mustApply(t, a, wanted); changed {
				t.Error("it does not settle")
			}
		})
	}
}

// What the API server filled in for one value of a field belongs to nobody, and is not allowed beside another.
func TestAnotherStrategyOfOurOwnIsAdopted(t *testing.T) {
	a, noted := applier(t)
	wanted := pick[*appsv1.StatefulSet](t, rendered(t, "default", namespace(t)), dataEtcd)
	before := wanted.DeepCopy()
	before.Spec.UpdateStrategy.Type = appsv1.RollingUpdateStatefulSetStrategyType
	mustApply(t, a, before)
	mustApply(t, a, wanted)
	live := current(t, wanted)
	if live.Spec.UpdateStrategy.Type != appsv1.OnDeleteStatefulSetStrategyType || live.Spec.UpdateStrategy.RollingUpdate != nil {
		t.Errorf("its strategy is %v", live.Spec.UpdateStrategy)
	}
	onlyOurs(t, live)
	noted.writes()
	if _, changed := mustApply(t, a, wanted); changed || len(noted.writes()) > 0 {
		t.Error("it does not settle")
	}
}

func TestAScaledWorkloadIsScaledBack(t *testing.T) {
	for name, pickFrom := range map[string]func(*testing.T, []client.Object) client.Object{
		"StatefulSet": func(t *testing.T, objects []client.Object) client.Object {
			return pick[*appsv1.StatefulSet](t, objects, dataEtcd)
		},
		"Deployment": func(t *testing.T, objects []client.Object) client.Object {
			return pick[*appsv1.Deployment](t, objects, scheduler)
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, noted := applier(t)
			wanted := pickFrom(t, rendered(t, "default", namespace(t)))
			mustApply(t, a, wanted)
			applied := current(t, wanted)
			scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 1}}
			if err := person.SubResource("scale").Update(t.Context(), current(t, wanted), client.WithSubResourceBody(scale), client.FieldOwner("kubectl")); err != nil {
				t.Fatal(err)
			}
			noted.writes()
			if _, changed := mustApply(t, a, wanted); !changed || len(noted.writes()) != 1 {
				t.Error("it was not scaled back by one write")
			}
			if diff := cmp.Diff(content(t, applied), content(t, current(t, wanted))); diff != "" {
				t.Errorf("it is not as it was (-was +is):\n%s", diff)
			}
			if _, changed := mustApply(t, a, wanted); changed {
				t.Error("it does not settle")
			}
		})
	}
}

// An object that was there before belongs to the tenant by its name: its content becomes the wanted.
func TestAnObjectThatWasThereBeforeIsTakenOver(t *testing.T) {
	a, _ := applier(t)
	wanted := pick[*corev1.ConfigMap](t, rendered(t, "default", namespace(t)), apiserver+"-config")
	other := wanted.DeepCopy()
	other.Labels, other.Data = nil, map[string]string{"other": "content"}
	if err := person.Create(t.Context(), other, client.FieldOwner("kubectl-create")); err != nil {
		t.Fatal(err)
	}
	mustApply(t, a, wanted)
	live := current(t, wanted)
	if _, there := live.Data["other"]; there || !Contains(asAny(live.Data), asAny(wanted.Data)) {
		t.Errorf("data is %v", live.Data)
	}
	onlyOurs(t, live)
	if _, changed := mustApply(t, a, wanted); changed {
		t.Error("it does not settle")
	}
}

func asAny(data map[string]string) map[string]any {
	out := map[string]any{}
	for key, value := range data {
		out[key] = value
	}
	return out
}
