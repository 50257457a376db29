//go:build envtest

package controllers

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/registry"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/ports"
)

// generated are the objects that the controller made, but for the claim of ports.
func (tt *tenantTest) generated() map[string]client.Object {
	tt.t.Helper()
	all := map[string]client.Object{}
	for _, object := range tt.objects() {
		kind := object.GetObjectKind().GroupVersionKind().Kind
		if kind != "Pod" && kind != "PersistentVolumeClaim" && object.GetNamespace() == tt.key.Namespace {
			all[kind+" "+object.GetName()] = object
		}
	}
	return all
}

// content is what an object says, without what the API server says of it.
func content(t *testing.T, object client.Object) map[string]any {
	t.Helper()
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		t.Fatal(err)
	}
	delete(fields, "status")
	fields["metadata"] = map[string]any{"labels": object.GetLabels(), "annotations": object.GetAnnotations()}
	return fields
}

// mayDiffer are objects of which a new one need not be like the old one.
func mayDiffer(name string) bool {
	// Certificates and the kubeconfig are issued anew, and a revision of spec has the time.
	return strings.HasSuffix(name, "-certs") || name == "Secret blue-kubeconfig" || strings.HasPrefix(name, "ControllerRevision blue-spec-")
}

// together are objects that are deleted or edited at once: all of a kind. Where the content of Secrets goes, the two copies
// of key material are two groups, and what is made with it is a third.
func together(objects map[string]client.Object, contentGoes bool) map[string][]string {
	groups := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(objects)) {
		group, _, _ := strings.Cut(name, " ")
		if group == "Secret" && contentGoes {
			switch {
			case name == "Secret blue-key-material":
				group = "Secret with the second copy of keys"
			case mayDiffer(name) || name == "Secret blue-apiserver-lb":
				group = "Secret made with keys"
			default:
				group = "Secret with keys"
			}
		}
		groups[group] = append(groups[group], name)
	}
	return groups
}

func TestWhateverIsDeletedComesBack(t *testing.T) {
	t.Parallel()
	tt := newTenantTest(t, small)
	tt.settle()
	before, pods := tt.generated(), tt.podUIDs()
	for group, names := range together(before, true) {
		t.Run(group, func(t *testing.T) {
			for _, name := range names {
				policy := client.PropagationPolicy(metav1.DeletePropagationBackground)
				if slices.Contains([]string{"StatefulSet", "DaemonSet", "Deployment"}, group) {
					// Pods would go with them; see that they are taken over when they stay.
					policy = client.PropagationPolicy(metav1.DeletePropagationOrphan)
				}
				if err := environment.Client.Delete(t.Context(), before[name].DeepCopyObject().(client.Object), policy); err != nil {
					t.Fatal(err)
				}
			}
			tt.settle()
			after := tt.generated()
			if diff := cmp.Diff(slices.Sorted(maps.Keys(before)), slices.Sorted(maps.Keys(after))); diff != "" {
				t.Fatalf("objects differ (-before +after):\n%s", diff)
			}
			for name := range before {
				deleted := slices.Contains(names, name)
				if made := after[name].GetUID() != before[name].GetUID(); made != deleted {
					t.Errorf("that %s was made anew is %t", name, made)
				}
				if deleted && mayDiffer(name) {
					continue
				}
				if diff := cmp.Diff(content(t, before[name]), content(t, after[name])); diff != "" {
					t.Errorf("%s differs (-before +after):\n%s", name, diff)
				}
			}
			before = after
		})
	}
	if after := tt.podUIDs(); !maps.Equal(pods, after) {
		t.Errorf("pods were %v and are %v", pods, after)
	}
}

func (tt *tenantTest) podUIDs() map[string]string {
	tt.t.Helper()
	uids := map[string]string{}
	for _, object := range tt.objects() {
		if pod, ok := object.(*corev1.Pod); ok {
			uids[pod.Name] = string(pod.UID)
		}
	}
	return uids
}

func TestWhateverIsEditedComesBack(t *testing.T) {
	t.Parallel()
	tt := newTenantTest(t, small)
	tt.settle()
	before := tt.generated()
	for what, patch := range map[string]func(kind string) string{
		"labels are removed": func(string) string { return `{"metadata":{"labels":null}}` },
		"owners are removed": func(kind string) string {
			// Its own age tells whether a revision is of use; its owner only whether it goes with the tenant.
			if kind == "ControllerRevision" {
				return ""
			}
			return `{"metadata":{"ownerReferences":null}}`
		},
		"content is replaced": func(kind string) string {
			return map[string]string{"ConfigMap": `{"data":null}`, "Secret": `{"data":null}`, "Service": `{"spec":{"selector":{"a":"b"}}}`}[kind]
		},
	} {
		for group, names := range together(before, what == "content is replaced") {
			kind, _, _ := strings.Cut(group, " ")
			if patch(kind) == "" {
				continue
			}
			t.Run(group+"/"+what, func(t *testing.T) {
				for _, name := range names {
					object := before[name].DeepCopyObject().(client.Object)
					if err := environment.Client.Patch(t.Context(), object, client.RawPatch("application/merge-patch+json", []byte(patch(kind)))); err != nil {
						t.Fatal(err)
					}
				}
				tt.settle()
				after := tt.generated()
				for _, name := range names {
					if after[name] == nil {
						t.Errorf("%s has no labels, or is gone", name)
						continue
					}
					if after[name].GetUID() != before[name].GetUID() {
						t.Errorf("%s was made anew", name)
					}
					if got, want := owners(after[name]), owners(before[name]); got != want {
						t.Errorf("%s is owned by %s and was by %s", name, got, want)
					}
					if mayDiffer(name) && what == "content is replaced" {
						continue
					}
					if diff := cmp.Diff(content(t, before[name]), content(t, after[name])); diff != "" {
						t.Errorf("%s differs (-before +after):\n%s", name, diff)
					}
				}
				before = after
			})
		}
	}
}

func owners(object client.Object) string {
	raw, err := json.Marshal(object.GetOwnerReferences())
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// A provider's upgrade brings other renderings: nothing is adopted while the inputs are the same.
func TestANewProgramKeepsWhatTheOldOneRendered(t *testing.T) {
	t.Parallel()
	tt := newTenantTest(t, lasting)
	tt.settle()
	before := tt.generated()

	tt.program = newProgram(t, &gate{})
	tt.tellEtcd(1)
	revisions := 0
	for name, object := range before {
		if revision, ok := object.(*appsv1.ControllerRevision); ok && !strings.Contains(name, "services") && !strings.Contains(name, "spec") {
			revisions++
			// As an older program rendered it.
			older := revision.DeepCopy()
			older.ResourceVersion, older.UID = "", ""
			older.Data.Raw = []byte(strings.ReplaceAll(string(revision.Data.Raw), `"terminationGracePeriodSeconds":30`, `"terminationGracePeriodSeconds":29`))
			tt.delete(revision)
			if err := environment.Client.Create(t.Context(), older); err != nil {
				t.Fatal(err)
			}
		}
	}
	if revisions != len(registry.Components.Names()) {
		t.Fatalf("there are %d revisions", revisions)
	}
	tt.settle()
	d := &appsv1.Deployment{}
	if err := environment.Client.Get(t.Context(), tt.inNamespace("blue-kube-scheduler"), d); err != nil {
		t.Fatal(err)
	}
	if got := *d.Spec.Template.Spec.TerminationGracePeriodSeconds; got != 29 {
		t.Errorf("the grace period is %d: the stored rendering is not what is applied", got)
	}
	edit(t, tt.key, &controlplanev1.KOKControlPlane{}, func(c *controlplanev1.KOKControlPlane) { c.Spec.KubeScheduler.Replicas = ptr.To[int32](3) })
	tt.settle()
	for name, want := range map[string]int64{"blue-kube-scheduler": 30, "blue-kube-controller-manager": 29} {
		if err := environment.Client.Get(t.Context(), tt.inNamespace(name), d); err != nil {
			t.Fatal(err)
		}
		if got := *d.Spec.Template.Spec.TerminationGracePeriodSeconds; got != want {
			t.Errorf("after a change of the scheduler alone the grace period of %s is %d, want %d", name, got, want)
		}
	}
}

// Each Secret with key material has a copy; it is restored from there, and the pods do not notice.
// (TestWhateverIsDeletedComesBack deletes each of them.) Without both a person must act.
func TestLostKeyMaterialIsSaidAndNeverMadeAnew(t *testing.T) {
	t.Parallel()
	for _, lost := range []struct {
		secret string
		keys   []string
		what   string
	}{
		{"blue-ca", []string{"ca.crt", "ca.key"}, "cluster CA"},
		{"blue-etcd", []string{"etcd-ca.crt", "etcd-ca.key"}, "etcd CA"},
		{"blue-etcd-events", []string{"etcd-events-ca.crt", "etcd-events-ca.key"}, "events etcd CA"},
		{"blue-proxy", []string{"front-proxy-ca.crt", "front-proxy-ca.key"}, "front proxy CA"},
		{"blue-sa", []string{"sa.pub", "sa.key"}, "service account key"},
		{"blue-encryption", []string{"encryption-key"}, "encryption key"},
	} {
		t.Run(lost.what, func(t *testing.T) {
			t.Parallel()
			tt := newTenantTest(t, single)
			tt.settle()
			etcds := &forgetfulOperator{Operator: tt.program.etcdOperator}
			tt.program.etcdOperator = etcds
			before, pods := tt.generated(), tt.podUIDs()
			backup := before["Secret "+lost.secret].DeepCopyObject().(*corev1.Secret)

			tt.delete(before["Secret "+lost.secret])
			edit(t, tt.inNamespace(names.KeyMaterial("blue")), &corev1.Secret{}, func(s *corev1.Secret) {
				for _, key := range lost.keys {
					delete(s.Data, key)
				}
			})
			tt.settle()
			available := conditions.Get(tt.controlPlane(), conditionsv1.CertificatesAvailableCondition)
			if available.Status != metav1.ConditionFalse || available.Reason != conditionsv1.KeyMaterialLostReason ||
				!strings.Contains(available.Message, lost.what) || !strings.Contains(available.Message, lost.secret) {
				t.Errorf("it says %v", available)
			}
			if got := tt.generated()["Secret "+lost.secret]; got != nil {
				t.Error("it was made anew")
			}
			if !maps.Equal(pods, tt.podUIDs()) {
				t.Error("pods changed")
			}
			if etcds.forgotten == 0 {
				t.Error("the etcd operator goes on with the keys that it had")
			}

			backup.ResourceVersion, backup.UID = "", ""
			if err := environment.Client.Create(t.Context(), backup); err != nil {
				t.Fatal(err)
			}
			tt.settle()
			if !conditions.IsTrue(tt.controlPlane(), conditionsv1.CertificatesAvailableCondition) {
				t.Error("with the backup restored it is not available")
			}
			etcds.forgotten = 0
			if err := tt.reconcile(); err != nil || etcds.forgotten > 0 {
				t.Errorf("with the backup restored etcd is left alone %d times: %v", etcds.forgotten, err)
			}
			for name, object := range tt.generated() {
				if diff := cmp.Diff(content(t, before[name]), content(t, object)); diff != "" {
					t.Errorf("%s differs (-before +after):\n%s", name, diff)
				}
			}
			if !maps.Equal(pods, tt.podUIDs()) {
				t.Error("pods changed")
			}
		})
	}
}

// A claim of ports may be lost after the manager's range has become another. A tenant that runs goes on, and a new one is refused.
func TestALostClaimOfPortsComesBackOutsideOfTheRange(t *testing.T) {
	t.Parallel()
	// Claims are in the tenant's own namespace, so that no other test gets the block meanwhile.
	claimFrom := func(tt *tenantTest, span ports.Span) {
		host := tt.program.Host
		host.Claims = ports.New(host.Client, host.Live, tt.key.Namespace, span)
	}
	another := ports.Span{First: 19000, Last: 19999}
	running := newTenantTest(t, single)
	claimFrom(running, ports.DefaultRange)
	running.settle()
	before := running.controlPlane().Spec.Hosting.Ports
	claim := fmt.Sprintf("ConfigMap kok-ports-%d", before.First)
	claimFrom(running, another)
	running.settle()
	running.expectReconciled("with another range", "")
	running.delete(running.generated()[claim], running.generated()["Service blue-kube-apiserver"])
	running.settle()
	running.expectReconciled("with another range and without its claim", "")
	if after := running.controlPlane().Spec.Hosting.Ports; after != before {
		t.Errorf("its ports were %v and are %v", before, after)
	}
	for _, again := range []string{claim, "Service blue-kube-apiserver"} {
		if running.generated()[again] == nil {
			t.Errorf("%s does not come back", again)
		}
	}

	young := newTenantTest(t, func(c *controlplanev1.KOKControlPlane) {
		single(c)
		c.Spec.Hosting.Ports.First = 25000
	})
	claimFrom(young, another)
	young.settle()
	young.expectReconciled("before it ran", "host ports 25000-25019 are not in 19000-19999")
	if young.generated()["ConfigMap kok-ports-25000"] != nil {
		t.Error("before it ran a block outside of the range is claimed")
	}
}

// While key material is lost, what does not need it is repaired all the same.
func TestWithoutKeysPortsAndAddressesAreKept(t *testing.T) {
	t.Parallel()
	tt := newTenantTest(t, single)
	tt.settle()
	address := tt.controlPlane().Spec.ControlPlaneEndpoint.Host
	tt.delete(tt.generated()["Secret blue-ca"], tt.generated()["Secret blue-key-material"], tt.generated()["Service blue-kube-apiserver"])
	tt.delete(tt.generated()["Deployment blue-kube-scheduler"], tt.generated()["StatefulSet blue-etcd-data"])
	tt.settle()
	for _, again := range []string{"Deployment blue-kube-scheduler", "StatefulSet blue-etcd-data"} {
		if tt.generated()[again] == nil {
			t.Errorf("%s does not come back", again)
		}
	}
	service := &corev1.Service{}
	if err := environment.Client.Get(t.Context(), tt.inNamespace("blue-kube-apiserver"), service); err != nil {
		t.Fatal(err)
	}
	if service.Spec.ClusterIP != address {
		t.Errorf("the API's address was %s and is %s", address, service.Spec.ClusterIP)
	}
	if got := fmt.Sprint(tt.claims()); got != "1" {
		t.Errorf("%s blocks of ports are claimed", got)
	}
}
