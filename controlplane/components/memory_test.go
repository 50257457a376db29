package components_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/kubescheduler"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/registry"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/hack/markdown"
)

// containersRendered are the containers of a component as the controller stores them.
func containersRendered(t *testing.T, component components.Component, in *components.Input) map[string]corev1.Container {
	t.Helper()
	objects, err := component.Rendered(in)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]corev1.Container{}
	for _, object := range objects {
		if pod := podOf(object); pod != nil {
			for _, container := range containersOf(pod.Spec) {
				all[container.Name] = container
			}
		}
	}
	return all
}

// toldLimit is whether kubelet tells a program the limit of its container.
func toldLimit(container corev1.Container) bool {
	return slices.ContainsFunc(container.Env, func(v corev1.EnvVar) bool {
		return v.Name == "GOMEMLIMIT" && v.ValueFrom != nil && v.ValueFrom.ResourceFieldRef.Resource == "limits.memory" && v.ValueFrom.ResourceFieldRef.ContainerName == ""
	})
}

// A container without a request has the smallest share of a busy host, and one without a limit all of its memory.
func TestEveryContainerIsBoundedBesideThoseOfOtherTenants(t *testing.T) {
	for variant, input := range variants {
		if variant == "customised" {
			continue // resources of its spec take the place of the defaults
		}
		for _, component := range registry.Components {
			for name, container := range containersRendered(t, component, input()) {
				requests, limits := container.Resources.Requests, container.Resources.Limits
				if requests.Cpu().IsZero() || requests.Memory().IsZero() || limits.Memory().Cmp(*requests.Memory()) <= 0 {
					t.Errorf("%s: %s requests %v and is limited to %v", variant, name, requests, limits)
				}
				if !limits.Cpu().IsZero() {
					t.Errorf("%s: %s is slowed down at %s of CPU, also where nobody else wants it", variant, name, limits.Cpu())
				}
				if !toldLimit(container) {
					t.Errorf("%s: %s does not know its limit: %v", variant, name, container.Env)
				}
			}
		}
	}
}

// People plan host nodes by this table.
func TestTheTableOfRequestsAndLimitsIsTrue(t *testing.T) {
	page, err := markdown.Read("docs/neighbours.md")
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(page.Tables, func(table markdown.Table) bool { return table.Under == "Requests and limits" })
	if i < 0 {
		t.Fatal("there is no table")
	}
	documented := map[string]string{}
	for _, row := range page.Tables[i].Rows {
		limit := row["memory limit"][strings.LastIndex(row["memory limit"], " ")+1:]
		documented[markdown.Code(row["container"])[0]] = strings.Join([]string{row["CPU request"], row["memory request"], limit}, " ")
	}
	rendered := map[string]string{}
	for _, component := range registry.Components {
		in := variants["default"]()
		in.Spec.Addons.Konnectivity.Mode = controlplanev1.AddonManaged
		in.Spec.Etcd.Backup = backupToS3()
		for name, container := range containersRendered(t, component, in) {
			requests, limits := container.Resources.Requests, container.Resources.Limits
			rendered[name] = strings.Join([]string{requests.Cpu().String(), requests.Memory().String(), limits.Memory().String()}, " ")
		}
	}
	if !maps.Equal(documented, rendered) {
		t.Errorf("the table has %v, rendered is %v", documented, rendered)
	}
}

func TestTheLimitOfEtcdGrowsWithItsQuota(t *testing.T) {
	for quota, want := range map[string]string{"512Mi": "3Gi", "2Gi": "6Gi", "8Gi": "18Gi"} {
		in := variants["default"]()
		size := resource.MustParse(quota)
		in.Spec.Etcd.Data.QuotaBackendSize = &size
		for component, want := range map[int]string{0: want, 1: "6Gi"} {
			limits := containersRendered(t, registry.Components[component], in)["etcd"].Resources.Limits
			if limit := limits.Memory(); limit.String() != want {
				t.Errorf("with a quota of %s for the data %s may have %s, want %s", quota, registry.Components[component].Name, limit, want)
			}
		}
	}
}

func TestWhatPeopleSayOfMemoryHolds(t *testing.T) {
	scheduler := kubescheduler.Component
	quantity := resource.MustParse
	for name, test := range map[string]struct {
		spec    *corev1.ResourceRequirements
		patch   string
		request string
		limit   string
		// own is the value of a variable that is not ours.
		own string
	}{
		"nothing":                                   {request: "64Mi", limit: "4Gi"},
		"resources without limits":                  {spec: &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceMemory: quantity("16Gi")}}, request: "16Gi", limit: "0"},
		"resources with a limit":                    {spec: &corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: quantity("512Mi")}}, request: "0", limit: "512Mi"},
		"a patch of the limit":                      {patch: `resources: {limits: {memory: 9Gi}}`, request: "64Mi", limit: "9Gi"},
		"a patch of another limit":                  {patch: `resources: {limits: {cpu: "2"}}`, request: "64Mi", limit: "4Gi"},
		"a patch of the request":                    {patch: `resources: {requests: {memory: 1Gi}}`, request: "1Gi", limit: "4Gi"},
		"a patch that requests more than the limit": {patch: `resources: {requests: {memory: 5Gi}}`, request: "5Gi", limit: "5Gi"},
		"a patch that takes the limit away":         {patch: `resources: {requests: {memory: 5Gi}, limits: null}`, request: "5Gi", limit: "0"},
		"a patch of the variable":                   {patch: `env: [{name: GOMEMLIMIT, value: 3GiB}]`, request: "64Mi", limit: "4Gi", own: "3GiB"},
	} {
		t.Run(name, func(t *testing.T) {
			in := variants["default"]()
			in.Spec.KubeScheduler.Resources = test.spec
			if test.patch != "" {
				patch := "spec: {template: {spec: {containers: [{name: kube-scheduler, " + strings.TrimSpace(test.patch) + "}]}}}"
				in.Spec.Patches = []controlplanev1.Patch{patchFor(names.KubeScheduler, "Deployment", patch)}
			}
			container := containersRendered(t, scheduler, in)[names.KubeScheduler]
			if request, limit := container.Resources.Requests.Memory(), container.Resources.Limits.Memory(); request.String() != test.request || limit.String() != test.limit {
				t.Errorf("it requests %s and may have %s, want %s and %s", request, limit, test.request, test.limit)
			}
			own := test.own != "" && slices.Contains(container.Env, corev1.EnvVar{Name: "GOMEMLIMIT", Value: test.own})
			if len(container.Env) != 1 || own == toldLimit(container) {
				t.Errorf("its variables are %v", container.Env)
			}
		})
	}
}

// A container that a patch adds is not ours to bound: its limit is the patch's, and it may be no program of Go.
func TestContainersOfPatchesKeepWhatTheySay(t *testing.T) {
	in := variants["default"]()
	in.Spec.Patches = []controlplanev1.Patch{patchFor(names.KubeScheduler, "Deployment", `spec: {template: {spec: {containers: [{name: side, image: registry.example/side:v1}]}}}`)}
	side := containersRendered(t, kubescheduler.Component, in)["side"]
	if side.Image == "" || len(side.Env) > 0 || len(side.Resources.Limits) > 0 {
		t.Errorf("it is %+v", side)
	}
}
