//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlcluster "sigs.k8s.io/cluster-api/cmd/clusterctl/client/cluster"
	"sigs.k8s.io/cluster-api/test/framework"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/ports"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/revision"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/e2e/inventory"
)

// healing deletes and edits by hand everything that the controller made for tenant a.
func (j *journey) healing() {
	It("edited by hand, every object goes back to what it was (A14)", func(ctx SpecContext) {
		var problems []string
		edited := 0
		for _, object := range j.generated(ctx) {
			for _, edit := range editsOf(object) {
				before, err := env.inventory.Get(ctx, object)
				Expect(err).NotTo(HaveOccurred())
				_, err = env.inventory.Client(object).Patch(ctx, object.GetName(), types.JSONPatchType, edit.patch(), metav1.PatchOptions{FieldManager: "by-hand"})
				Expect(err).NotTo(HaveOccurred(), "%s: %s", object, edit)
				if difference := comesBack(ctx, object, before, repair); difference != "" {
					problems = append(problems, fmt.Sprintf("%s, after %s:\n%s", object, edit, difference))
				}
				edited++
			}
		}
		env.log.Print("%d edits were made by hand", edited)
		Expect(problems).To(BeEmpty(), strings.Join(problems, "\n"))
		j.a.expectHealthy(ctx)
	})

	It("deleted, every object comes back as it was (A14)", func(ctx SpecContext) {
		endpoint := j.a.controlPlane(ctx).Spec.ControlPlaneEndpoint
		began, slowest, which := time.Now(), time.Duration(0), ""
		for _, object := range j.generated(ctx) {
			before, err := env.inventory.Get(ctx, object)
			Expect(err).NotTo(HaveOccurred())
			Expect(before).NotTo(BeNil(), "%s", object)
			Expect(env.inventory.Client(object).Delete(ctx, object.GetName(), metav1.DeleteOptions{
				PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)})).To(Succeed(), "%s", object)
			timeout := repair
			if isWorkload(object) || object.GetKind() == "Service" {
				// Pods go first. Of some thousand Services that are deleted and made again at once, one finds its
				// address taken for a minute, until kube-apiserver looks for addresses without a Service.
				timeout = creation
			}
			deleted := time.Now()
			Expect(comesBack(ctx, object, before, timeout)).To(BeEmpty(), "%s, after its deletion", object)
			if took := time.Since(deleted); !isWorkload(object) && took > slowest {
				slowest, which = took, object.String()
			}
			if isWorkload(object) {
				j.a.expectHealthy(ctx)
			}
		}
		env.log.Print("every object was deleted once and is back after %.1f s; the slowest that has no pods was %s, %.1f s",
			time.Since(began).Seconds(), which, slowest.Seconds())
		j.a.expectHealthy(ctx)
		Expect(j.a.controlPlane(ctx).Spec.ControlPlaneEndpoint).To(Equal(endpoint))
		j.a.connect(ctx)
		j.a.expectReached(ctx)
		j.expectWritten(ctx)
	})

	It("gets back its owners and its finalizers, as Cluster API's own providers do", func(ctx SpecContext) {
		j.expectLed(ctx)
		before := j.a.snapshot(ctx)
		ours := clusterctlcluster.FilterClusterObjectsWithNameFilter("no object of the cluster itself")
		framework.ValidateFinalizersResilience(ctx, env.proxy, j.a.Namespace, j.a.Name, ours, framework.CoreFinalizersAssertionWithLegacyClusters,
			map[string]func(types.NamespacedName) []string{
				"KOKControlPlane": func(types.NamespacedName) []string { return []string{controlplanev1.KOKControlPlaneFinalizer} },
			})
		controlled := func(_ types.NamespacedName, owners []metav1.OwnerReference) error {
			return framework.HasExactOwners(owners, metav1.OwnerReference{
				APIVersion: controlplanev1.GroupVersion.String(), Kind: "KOKControlPlane", Controller: ptr.To(true),
			})
		}
		framework.ValidateOwnerReferencesResilience(ctx, env.proxy, j.a.Namespace, j.a.Name, ours, framework.CoreOwnerReferenceAssertion,
			map[string]func(types.NamespacedName, []metav1.OwnerReference) error{
				"KOKControlPlane": func(_ types.NamespacedName, owners []metav1.OwnerReference) error {
					return framework.HasExactOwners(owners, metav1.OwnerReference{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster"})
				},
				"Secret":    controlled,
				"ConfigMap": controlled,
			})
		j.a.expectHealthy(ctx)
		Expect(j.a.snapshot(ctx)).To(Equal(before))
	})
}

// generated are the objects that the controller made for tenant a: those that the control plane owns, without the
// revisions that newer ones replaced, which are history, and on the host network the claim of its ports, which lies
// elsewhere.
func (j *journey) generated(ctx context.Context) []inventory.Object {
	GinkgoHelper()
	all, err := env.inventory.Namespace(ctx, j.a.Namespace)
	Expect(err).NotTo(HaveOccurred())
	owner, newest := j.a.controlPlane(ctx), newestRevisions(all)
	var list []inventory.Object
	kinds := map[string]int{}
	for _, object := range all {
		replaced := object.GetKind() == "ControllerRevision" && revisionNumber(object) < newest[object.GetLabels()[revision.ComponentLabel]]
		if metav1.IsControlledBy(object, owner) && !replaced {
			list = append(list, object)
			kinds[object.GetKind()]++
		}
	}
	for _, kind := range []string{"StatefulSet", "Deployment", "Service", "ConfigMap", "Secret", "PodDisruptionBudget", "ControllerRevision"} {
		Expect(kinds).To(HaveKey(kind))
	}
	deployments, claimsWanted, policies := 2, 1, 0
	if j.a.mode.isDeployment() {
		deployments++
	}
	if j.a.mode.onPodNetwork() {
		claimsWanted, policies = 0, len(componentNames)
	}
	Expect(kinds["Deployment"]).To(Equal(deployments), "Deployments")
	Expect(kinds["DaemonSet"]).To(Equal(3-deployments), "DaemonSets")
	Expect(kinds["NetworkPolicy"]).To(Equal(policies), "NetworkPolicies")
	claims, err := env.inventory.Namespace(ctx, manager.Namespace)
	Expect(err).NotTo(HaveOccurred())
	labels := names.ComponentLabels(j.a.ObjectKey, ports.Component)
	claimed := 0
	for _, object := range claims {
		if object.GetKind() == "ConfigMap" && containsAll(object.GetLabels(), labels) {
			list = append(list, object)
			claimed++
		}
	}
	Expect(claimed).To(Equal(claimsWanted), "claims of ports")
	return list
}

// newestRevisions are the numbers of the components' newest revisions.
func newestRevisions(all []inventory.Object) map[string]int64 {
	GinkgoHelper()
	newest := map[string]int64{}
	for _, object := range all {
		if component, ok := object.GetLabels()[revision.ComponentLabel]; ok {
			newest[component] = max(newest[component], revisionNumber(object))
		}
	}
	return newest
}

func revisionNumber(object inventory.Object) int64 {
	GinkgoHelper()
	number, found, err := unstructured.NestedInt64(object.Object, "revision")
	Expect(err).NotTo(HaveOccurred())
	Expect(found).To(BeTrue(), "%s has no number", object)
	return number
}

func containsAll(have, want map[string]string) bool {
	for key, value := range want {
		if have[key] != value {
			return false
		}
	}
	return true
}

func isWorkload(object inventory.Object) bool {
	return object.GetKind() == "DaemonSet" || object.GetKind() == "StatefulSet" || object.GetKind() == "Deployment"
}

// reissued reports whether the content of an object is made anew when it is lost: certificates that
// components serve and dial with.
func reissued(object inventory.Object) bool {
	return object.GetKind() == "Secret" && (strings.HasSuffix(object.GetName(), "-certs") || strings.HasSuffix(object.GetName(), "-kubeconfig"))
}

// repair bounds the repair of an object that needs no pod to start: another manager may have to take over first. It is
// less than the minute after which a tenant is looked at although nothing happened.
const repair = 45 * time.Second

// comesBack waits until an object is, under another identity or not, what it was before, and says how it
// differs in the end. Of what is made anew only the names of its data are compared.
func comesBack(ctx context.Context, object inventory.Object, before *unstructured.Unstructured, timeout time.Duration) (difference string) {
	GinkgoHelper()
	want := inventory.Wanted(before)
	if reissued(object) {
		withoutValues(want)
	}
	withoutTime(want)
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, timeout, true, func(ctx context.Context) (bool, error) {
		live, err := env.inventory.Get(ctx, object)
		switch {
		case err != nil:
			difference = err.Error()
			return false, nil //nolint:nilerr // It is tried again.
		case live == nil:
			difference = "it does not exist"
			return false, nil
		case live.GetDeletionTimestamp() != nil:
			difference = "it is being deleted"
			return false, nil
		}
		have := inventory.Wanted(live)
		if reissued(object) {
			withoutValues(have)
		}
		withoutTime(have)
		difference = cmp.Diff(want, have)
		return difference == "", nil
	})
	Expect(err).To(Or(Not(HaveOccurred()), MatchError(context.DeadlineExceeded)), "%s", object)
	return difference
}

// byHand is the value that edits set.
const byHand = "edited by hand"

// withoutValues forgets the values of a Secret, but not one that was edited.
func withoutValues(wanted map[string]any) {
	data, _ := wanted["data"].(map[string]any)
	for name, value := range data {
		if value != inventory.Hash([]byte(byHand)) {
			data[name] = "any"
		}
	}
}

// withoutTime forgets when a revision of spec was made: where managed fields do not tell, it is the time of the manager.
func withoutTime(wanted map[string]any) {
	if data, ok := wanted["data"].(map[string]any); ok && wanted["kind"] == "ControllerRevision" {
		delete(data, "at")
		delete(data, "spec") // A rendering that is made anew names the present revision of spec, with the same hash.
	}
}

// edit is a JSON patch that a person might make.
type edit []map[string]any

func (e edit) String() string { return fmt.Sprintf("%v %v", e[0]["op"], e[0]["path"]) }

func (e edit) patch() []byte {
	GinkgoHelper()
	patch, err := json.Marshal([]map[string]any(e))
	Expect(err).NotTo(HaveOccurred())
	return patch
}

func operation(op, path string, value any) edit {
	if op == "remove" {
		return edit{{"op": op, "path": path}}
	}
	return edit{{"op": op, "path": path, "value": value}}
}

// editsOf are, for each kind, the change of a scalar and the addition of a field. The API server refuses
// edits of ControllerRevisions' data and of the immutable claim of ports; key material is a person's to
// restore and has specs of its own.
func editsOf(object inventory.Object) []edit {
	GinkgoHelper()
	label := operation("remove", "/metadata/labels/"+strings.ReplaceAll(names.ManagedByLabel, "/", "~1"), nil)
	edits := []edit{label}
	switch object.GetKind() {
	case "ConfigMap":
		if object.GetNamespace() == manager.Namespace {
			return edits
		}
		for name := range object.Object["data"].(map[string]any) {
			edits = append(edits, operation("replace", "/data/"+name, byHand))
			break
		}
		edits = append(edits, operation("add", "/data/added", "by hand"))
	case "Secret":
		if !reissued(object) {
			return edits
		}
		for name := range object.Object["data"].(map[string]any) {
			edits = append(edits, operation("replace", "/data/"+name, []byte(byHand)))
			break
		}
		edits = append(edits, operation("add", "/data/added", []byte("by hand")))
	case "Service":
		edits = append(edits, operation("replace", "/spec/sessionAffinity", "ClientIP"),
			operation("add", "/spec/ports/-", map[string]any{"name": "added", "port": 9}))
	case "PodDisruptionBudget":
		edits = append(edits, operation("replace", "/spec/maxUnavailable", 2), operation("add", "/spec/selector/matchLabels/added", "by-hand"))
	case "NetworkPolicy":
		edits = append(edits, operation("replace", "/spec/policyTypes", []string{"Egress"}), operation("add", "/spec/ingress", []any{map[string]any{}}))
	case "StatefulSet":
		edits = append(edits, operation("replace", "/spec/persistentVolumeClaimRetentionPolicy/whenScaled", "Delete"), operation("add", "/spec/minReadySeconds", 1))
	case "DaemonSet":
		edits = append(edits, operation("replace", "/spec/updateStrategy", map[string]any{"type": "OnDelete"}), operation("add", "/spec/minReadySeconds", 1))
	case "Deployment":
		edits = append(edits, operation("replace", "/spec/replicas", 1), operation("add", "/spec/minReadySeconds", 1),
			operation("add", "/spec/template/metadata/annotations", map[string]any{"added": "by-hand"}))
	case "ControllerRevision":
	default:
		Fail("no edit is known of " + object.String())
	}
	return edits
}

// patch merges fields into an object of the host cluster.
func patch(ctx context.Context, object client.Object, fields string) {
	GinkgoHelper()
	Expect(env.client.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(fields)))).To(Succeed())
}
