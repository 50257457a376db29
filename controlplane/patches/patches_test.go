package patches_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/addons"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/registry"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/patches"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/rendering"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/versions"
)

// render is what a component or an addon of a control plane with everything switched on is rendered as.
func render(t testing.TB, component string) []client.Object {
	t.Helper()
	return renderSpec(t, component, controlplanev1.KOKControlPlaneSpec{})
}

// target is a component or an addon as its description has it.
func target(name string) patches.Target {
	if component, found := registry.Components.Named(name); found {
		return component.Target()
	}
	for _, a := range addons.All {
		if a.Name == name {
			return a.Target()
		}
	}
	return patches.Target{Name: name}
}

// renderAll has what another mode adds besides.
func renderAll(t testing.TB, component string) []client.Object {
	t.Helper()
	spec := controlplanev1.KOKControlPlaneSpec{}
	spec.Hosting.NetworkMode = controlplanev1.NetworkModePod
	spec.KubeAPIServer.Workload = controlplanev1.APIServerDeployment
	return append(render(t, component), renderSpec(t, component, spec)...)
}

func renderSpec(t testing.TB, component string, spec controlplanev1.KOKControlPlaneSpec) []client.Object {
	t.Helper()
	spec.Version = "v1.36.3"
	spec.KubeAPIServer.Audit = &controlplanev1.AuditSpec{MaxSizeMB: 100, MaxBackups: 5}
	spec.Addons.Konnectivity.Mode = controlplanev1.AddonManaged
	in, tenant, err := rendering.Sample(spec, versions.BuiltIn())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range registry.Components {
		if c.Name == component {
			objects, err := rendering.ObjectsOf(c, in)
			if err != nil {
				t.Fatal(err)
			}
			return objects
		}
	}
	for _, a := range addons.All {
		if a.Name == component {
			objects, err := addons.Render(a, tenant)
			if err != nil {
				t.Fatal(err)
			}
			return objects
		}
	}
	t.Fatalf("there is no %s", component)
	return nil
}

func merge(component, kind, text string) controlplanev1.Patch {
	return controlplanev1.Patch{
		Target: controlplanev1.PatchTarget{Component: component, Kind: kind}, Type: controlplanev1.PatchStrategicMerge, Patch: text,
	}
}

func operations(component, kind string, list ...string) controlplanev1.Patch {
	return controlplanev1.Patch{
		Target: controlplanev1.PatchTarget{Component: component, Kind: kind}, Type: controlplanev1.PatchJSON6902,
		Patch: "- " + strings.Join(list, "\n- "),
	}
}

// podPatch is a strategic merge patch of the pods of a component.
func podPatch(component, kind, spec string) controlplanev1.Patch {
	return merge(component, kind, `{"spec":{"template":{"spec":`+spec+`}}}`)
}

func schedulerPods(spec string) controlplanev1.Patch {
	return podPatch("kube-scheduler", "Deployment", spec)
}

func TestPatchesThatAreRefused(t *testing.T) {
	const (
		scheduler   = "Deployment of kube-scheduler: "
		marked      = " cannot be patched: the controller needs it, remove it from the patch"
		objectCan   = "remove it from the patch; of the object these can be named: metadata, spec"
		metadataCan = "remove it from the patch; of metadata these can be named: annotations, labels"
		specCan     = "remove it from the patch; of spec these can be named: minReadySeconds, progressDeadlineSeconds, replicas, revisionHistoryLimit, strategy, template, updateStrategy, volumeClaimTemplates"
		restricted  = "pods must meet the Pod Security Standard restricted: "
		oneOf       = " cannot be added: a volume must be a configMap, secret, emptyDir, downwardAPI, or projected of configMap, secret and downwardAPI"
	)
	cases := []struct {
		name  string
		patch controlplanev1.Patch
		want  string
	}{
		{"kind that a component has not", merge("kube-scheduler", "DaemonSet", "{}"),
			"DaemonSet of kube-scheduler: kube-scheduler has no DaemonSet; set target.kind to one of Deployment, NetworkPolicy, PodDisruptionBudget"},
		{"kind that an addon has not", merge("coredns", "DaemonSet", "{}"),
			"DaemonSet of coredns: coredns has no DaemonSet; set target.kind to one of ClusterRole, ClusterRoleBinding, ConfigMap, Deployment, Service, ServiceAccount"},
		{"keys", merge("kube-apiserver", "Secret", "{}"),
			"Secret of kube-apiserver: Secrets hold keys and certificates and cannot be patched; set target.kind to one of ConfigMap, DaemonSet, Deployment, NetworkPolicy, PodDisruptionBudget, Service"},

		{"text that is no YAML", merge("kube-scheduler", "Deployment", "a: b: c"),
			scheduler + "it is neither YAML nor JSON: yaml: mapping values are not allowed in this context"},
		{"a key twice", merge("kube-scheduler", "Deployment", "spec: {}\nspec: {}"),
			scheduler + "it is neither YAML nor JSON: yaml: unmarshal errors: line 2: key \"spec\" already set in map"},
		{"a comment alone", merge("kube-scheduler", "Deployment", "# nothing"), scheduler + "it is empty; remove it from the list"},
		{"two documents", merge("kube-scheduler", "Deployment", "spec: {}\n---\nmetadata: {}"), scheduler + "it has several YAML documents; write one patch for each"},
		{"operations as a part", merge("kube-scheduler", "Deployment", "[]"),
			scheduler + "a StrategicMerge patch is a part of the object; for a list of operations set type to JSON6902"},
		{"a part as operations", controlplanev1.Patch{Target: controlplanev1.PatchTarget{Component: "kube-scheduler", Kind: "Deployment"}, Type: controlplanev1.PatchJSON6902, Patch: "spec: {}"},
			scheduler + "a JSON6902 patch is a list of operations; for a part of the object set type to StrategicMerge"},
		{"an operation on what is not there", operations("kube-scheduler", "Deployment", "{op: replace, path: /spec/template/spec/runtimeClassName, value: a}"),
			scheduler + "it does not apply to the rendered cluster-kube-scheduler: replace operation does not apply: doc is missing key: /spec/template/spec/runtimeClassName: missing value"},
		{"a test that fails", operations("kube-scheduler", "Deployment", "{op: test, path: /spec/replicas, value: 7}"),
			scheduler + "it does not apply to the rendered cluster-kube-scheduler: testing value /spec/replicas failed: test failed"},
		{"operations that do not exist", operations("kube-scheduler", "Deployment", "{op: merge, path: /spec, value: {}}"),
			scheduler + "it does not apply to the rendered cluster-kube-scheduler: invalid operation {\"op\":\"merge\",\"path\":\"/spec\",\"value\":{}}: unsupported operation"},
		{"unknown field", schedulerPods(`{"containers":[{"name":"kube-scheduler","resources":{"limit":{"cpu":"1"}}}]}`),
			scheduler + `it makes no valid object: unknown field "spec.template.spec.containers[0].resources.limit"`},
		{"no quantity", schedulerPods(`{"containers":[{"name":"kube-scheduler","resources":{"limits":{"cpu":"one"}}}]}`),
			scheduler + `it makes no valid object: quantities must match the regular expression`},
		{"name that is a list", schedulerPods(`{"volumes":[{"name":[0]}]}`),
			scheduler + "it does not apply to the rendered cluster-kube-scheduler: runtime error: comparing uncomparable type []interface {}: write each name, and whatever else tells the entries of a list apart, as one plain value"},
		{"growth by copies", operations("kube-apiserver", "ConfigMap",
			slices.Repeat([]string{"{op: copy, from: /data, path: /data/a}"}, 30)...), "exceeding the limit 262144"},

		{"another kind", merge("kube-scheduler", "Deployment", "kind: DaemonSet"), scheduler + "kind cannot be patched: " + objectCan},
		{"another version", merge("kube-scheduler", "Deployment", "apiVersion: apps/v2"), scheduler + "apiVersion cannot be patched: " + objectCan},
		{"another name", merge("kube-scheduler", "Deployment", "metadata: {name: other}"), scheduler + "metadata.name cannot be patched: " + metadataCan},
		{"another namespace", merge("kube-scheduler", "Deployment", "metadata: {namespace: other}"), scheduler + "metadata.namespace cannot be patched: " + metadataCan},
		{"owners", merge("kube-scheduler", "Deployment", "metadata: {ownerReferences: [{apiVersion: v1, kind: Node, name: a, uid: b}]}"),
			scheduler + "metadata.ownerReferences cannot be patched: " + metadataCan},
		{"finalizers", merge("kube-scheduler", "Deployment", "metadata: {finalizers: [example/a]}"), scheduler + "metadata.finalizers cannot be patched: " + metadataCan},
		{"status", merge("kube-scheduler", "Deployment", "status: {replicas: 2}"), scheduler + "status cannot be patched: " + objectCan},
		{"whole object removed", merge("kube-scheduler", "Deployment", "$patch: delete"), scheduler + "apiVersion cannot be patched: "},
		{"label of the component", merge("kube-scheduler", "Deployment", "metadata: {labels: {app.kubernetes.io/component: other}}"),
			scheduler + "metadata.labels[app.kubernetes.io/component]" + marked},
		{"label of the manager removed", merge("kube-scheduler", "Deployment", "metadata: {labels: {app.kubernetes.io/managed-by: null}}"),
			scheduler + "metadata.labels[app.kubernetes.io/managed-by]" + marked},
		{"all labels removed", operations("kube-scheduler", "Deployment", "{op: remove, path: /metadata/labels}"),
			scheduler + "metadata.labels[app.kubernetes.io/component]" + marked + "; metadata.labels[app.kubernetes.io/managed-by]" + marked},
		{"label of pods", merge("kube-scheduler", "Deployment", "spec: {template: {metadata: {labels: {cluster.x-k8s.io/cluster-name: other}}}}"),
			scheduler + "spec.template.metadata.labels[cluster.x-k8s.io/cluster-name]" + marked},
		{"label of a provider", merge("kube-scheduler", "Deployment", "metadata: {labels: {cluster.x-k8s.io/provider: a}}"),
			scheduler + "metadata.labels[cluster.x-k8s.io/provider] cannot be added: names of cluster.x-k8s.io are Cluster API's, choose another domain"},
		{"annotation of the controller", merge("kube-scheduler", "Deployment", "metadata: {annotations: {kok.cluster.x-k8s.io/rendering: a}}"),
			scheduler + "metadata.annotations[kok.cluster.x-k8s.io/rendering] cannot be added: "},
		{"annotation that restarts etcd", merge("etcd-data", "StatefulSet", "spec: {template: {metadata: {annotations: null}}}"),
			"StatefulSet of etcd-data: spec.template.metadata.annotations[kok.cluster.x-k8s.io/quota-backend-bytes]" + marked},

		{"replicas", merge("kube-scheduler", "Deployment", "spec: {replicas: 3}"), scheduler + "spec.replicas cannot be patched: set spec.kubeScheduler.replicas"},
		{"replicas of kube-controller-manager", merge("kube-controller-manager", "Deployment", "spec: {replicas: 3}"), "spec.replicas cannot be patched: set spec.kubeControllerManager.replicas"},
		{"members of etcd", merge("etcd-events", "StatefulSet", "spec: {replicas: 5}"), "spec.replicas cannot be patched: set spec.etcd.events.replicas"},
		{"volumes of etcd", merge("etcd-data", "StatefulSet", "spec: {volumeClaimTemplates: []}"), "spec.volumeClaimTemplates cannot be patched: set spec.etcd.data.storage"},
		{"what becomes of volumes", merge("etcd-data", "StatefulSet", "spec: {persistentVolumeClaimRetentionPolicy: {whenDeleted: Delete}}"),
			"spec.persistentVolumeClaimRetentionPolicy cannot be patched: " + specCan},
		{"selector", merge("kube-scheduler", "Deployment", "spec: {selector: {matchLabels: {a: b}}}"), scheduler + "spec.selector cannot be patched: " + specCan},
		{"pause", merge("kube-scheduler", "Deployment", "spec: {paused: true}"), scheduler + "spec.paused cannot be patched: " + specCan},
		{"surge", merge("kube-scheduler", "Deployment", "spec: {strategy: {rollingUpdate: {maxSurge: 1}}}"),
			scheduler + "spec.strategy cannot be patched: the controller rolls out pod by pod, so that enough of them serve at any time"},
		{"update on delete", merge("kube-apiserver", "DaemonSet", "spec: {updateStrategy: {type: OnDelete}}"),
			"DaemonSet of kube-apiserver: spec.updateStrategy cannot be patched: the controller rolls out pod by pod"},
		{"no spec", operations("kube-scheduler", "Deployment", "{op: remove, path: /spec}"), scheduler + "spec.replicas cannot be patched: set spec.kubeScheduler.replicas; "},
		{"spec that is text", operations("kube-scheduler", "Deployment", "{op: replace, path: /spec, value: a}"), scheduler + "spec.replicas cannot be patched: "},

		{"eviction of two members", merge("etcd-data", "PodDisruptionBudget", "spec: {maxUnavailable: 2}"),
			"PodDisruptionBudget of etcd-data: spec.maxUnavailable cannot be patched: remove it from the patch; of spec these can be named: unhealthyPodEvictionPolicy"},
		{"what must stay beside what may go", merge("kube-apiserver", "PodDisruptionBudget", "spec: {minAvailable: 1}"),
			"PodDisruptionBudget of kube-apiserver: spec.minAvailable cannot be set together with spec.maxUnavailable, which is rendered: set maxUnavailable: null beside it"},
		{"the same as an operation", operations("kube-scheduler", "PodDisruptionBudget", "{op: add, path: /spec/minAvailable, value: 50%}"),
			"PodDisruptionBudget of kube-scheduler: spec.minAvailable cannot be set together with spec.maxUnavailable, which is rendered: "},
		{"other pods' budget", merge("kube-scheduler", "PodDisruptionBudget", "spec: {selector: null}"), "spec.selector cannot be patched: "},
		{"address", merge("kube-apiserver", "Service", "spec: {clusterIP: 10.0.0.1}"), "Service of kube-apiserver: spec cannot be patched: remove it from the patch; of the object these can be named: metadata"},
		{"exposure", merge("kube-apiserver", "Service", "spec: {externalIPs: [10.0.0.1]}"), "Service of kube-apiserver: spec cannot be patched: "},
		{"anonymous access", merge("kube-apiserver", "ConfigMap", `data: {authentication.yaml: ""}`),
			"ConfigMap of kube-apiserver: data[authentication.yaml] cannot be patched: set spec.kubeAPIServer.jwt, spec.kubeAPIServer.audit or spec.addons.konnectivity"},
		{"a member's configuration", merge("etcd-data", "ConfigMap", `data: {cluster-etcd-data-0.yaml: ""}`),
			"ConfigMap of etcd-data: data[cluster-etcd-data-0.yaml] cannot be patched: the controller writes each member's configuration, remove it from the patch"},
		{"configuration that is fixed", merge("kube-apiserver", "ConfigMap", "immutable: true"), "ConfigMap of kube-apiserver: immutable cannot be patched: "},

		{"name of the container", operations("kube-scheduler", "Deployment", "{op: replace, path: /spec/template/spec/containers/0/name, value: other}"),
			scheduler + "spec.template.spec.containers[kube-scheduler] is missing: a patch must keep it, and its name"},
		{"name that is no text", operations("kube-scheduler", "Deployment", "{op: replace, path: /spec/template/spec/containers/0/name, value: {a: b}}"),
			scheduler + "spec.template.spec.containers[kube-scheduler] is missing: "},
		{"containers replaced", schedulerPods(`{"containers":[{"$patch":"replace"},{"name":"other","image":"a:b"}]}`),
			scheduler + "spec.template.spec.containers[kube-scheduler] is missing: "},
		{"image", schedulerPods(`{"containers":[{"name":"kube-scheduler","image":"other:v1"}]}`),
			scheduler + "spec.template.spec.containers[kube-scheduler].image cannot be patched: set spec.kubeScheduler.image"},
		{"arguments", schedulerPods(`{"containers":[{"name":"kube-scheduler","args":["--v=4"]}]}`),
			scheduler + "spec.template.spec.containers[kube-scheduler].args cannot be patched: set spec.kubeScheduler.extraArgs"},
		{"arguments of etcd", podPatch("etcd-data", "StatefulSet", `{"containers":[{"name":"etcd","args":["--v=4"]}]}`),
			"containers[etcd].args cannot be patched: each member reads a configuration file that the controller writes"},
		{"command", podPatch("kube-apiserver", "DaemonSet", `{"containers":[{"name":"kube-apiserver","command":["sh"]}]}`),
			"containers[kube-apiserver].command cannot be patched: set spec.kubeAPIServer.extraArgs"},
		{"image of konnectivity's server", podPatch("kube-apiserver", "DaemonSet", `{"initContainers":[{"name":"konnectivity-server","image":"a:b"}]}`),
			"spec.template.spec.initContainers[konnectivity-server].image cannot be patched: set spec.addons.konnectivity.serverImage"},
		{"image of prepare", podPatch("etcd-events", "StatefulSet", `{"initContainers":[{"name":"prepare","image":"a:b"}]}`),
			"spec.template.spec.initContainers[prepare].image cannot be patched: the manager's flag --etcd-agent-image names it"},
		{"arguments of prepare", podPatch("etcd-data", "StatefulSet", `{"initContainers":[{"name":"prepare","args":["prepare"]}]}`),
			"spec.template.spec.initContainers[prepare].args cannot be patched: they belong to the controller"},
		{"ports", operations("kube-scheduler", "Deployment", "{op: replace, path: /spec/template/spec/containers/0/ports/0/hostPort, value: 10259}"),
			scheduler + "spec.template.spec.containers[kube-scheduler].ports cannot be patched: every port is the controller's to choose; those of a host node are of the tenant's block, set spec.hosting.ports"},
		{"one port more", schedulerPods(`{"containers":[{"name":"kube-scheduler","ports":[{"containerPort":80}]}]}`),
			scheduler + "spec.template.spec.containers[kube-scheduler].ports cannot be patched: "},
		{"hook", schedulerPods(`{"containers":[{"name":"kube-scheduler","lifecycle":{"preStop":{"sleep":{"seconds":1}}}}]}`),
			scheduler + "spec.template.spec.containers[kube-scheduler].lifecycle cannot be patched: remove it from the patch; of spec.template.spec.containers[kube-scheduler] these can be named: "},
		{"what a probe asks", schedulerPods(`{"containers":[{"name":"kube-scheduler","livenessProbe":{"httpGet":{"path":"/"}}}]}`),
			scheduler + "spec.template.spec.containers[kube-scheduler].livenessProbe.httpGet cannot be patched: only the numbers of a probe can be patched"},
		{"variable that is rendered", podPatch("etcd-data", "StatefulSet", `{"containers":[{"name":"etcd","env":[{"name":"POD_NAME","value":"other","valueFrom":null}]}]}`),
			"containers[etcd].env[POD_NAME] cannot be patched: add a variable of another name"},
		{"mount that is rendered", schedulerPods(`{"containers":[{"name":"kube-scheduler","volumeMounts":[{"mountPath":"/etc/kubernetes/pki","name":"other"}]}]}`),
			scheduler + "spec.template.spec.containers[kube-scheduler].volumeMounts[/etc/kubernetes/pki] cannot be patched: mount at another path"},
		{"mount over a file that is rendered", schedulerPods(`{"volumes":[{"name":"a","configMap":{"name":"a"}}],"containers":[{"name":"kube-scheduler","volumeMounts":[{"mountPath":"/etc/kubernetes/pki/../pki/kubeconfig","name":"a","subPath":"a"}]}]}`),
			scheduler + "container kube-scheduler cannot mount a at /etc/kubernetes/pki/../pki/kubeconfig: kok-certs is mounted at /etc/kubernetes/pki, choose another path"},
		{"volume that is rendered", schedulerPods(`{"volumes":[{"name":"kok-certs","secret":{"secretName":"other"}}]}`),
			scheduler + "spec.template.spec.volumes[kok-certs] cannot be patched: add a volume of another name, or set extraVolumes of the component"},

		{"container twice", operations("kube-scheduler", "Deployment", "{op: add, path: /spec/template/spec/containers/0, value: {name: kube-scheduler, image: 'a:b'}}"),
			scheduler + "spec.template.spec.containers[kube-scheduler] is there twice: choose another name"},
		{"volume twice", operations("kube-scheduler", "Deployment", "{op: add, path: /spec/template/spec/volumes/0, value: {name: kok-certs, hostPath: {path: /}}}"),
			scheduler + "spec.template.spec.volumes[kok-certs] is there twice: choose another name"},
		{"variable twice", operations("etcd-data", "StatefulSet", "{op: add, path: /spec/template/spec/containers/0/env/0, value: {name: POD_NAME, value: other}}"),
			"spec.template.spec.containers[etcd].env[POD_NAME] is there twice: choose another name"},

		{"fewer who are let in", merge("etcd-data", "NetworkPolicy", "spec: {ingress: []}"),
			"NetworkPolicy of etcd-data: spec.ingress must start with what is rendered: the parts of the control plane need what is rendered; add to it with a JSON6902 patch whose path ends in /ingress/-"},
		{"pods of a policy", merge("kube-apiserver", "NetworkPolicy", "spec: {podSelector: {matchLabels: {a: b}}}"), "NetworkPolicy of kube-apiserver: spec.podSelector cannot be patched: "},
		{"replicas of kube-apiserver", merge("kube-apiserver", "Deployment", "spec: {replicas: 5}"),
			"Deployment of kube-apiserver: spec.replicas cannot be patched: set spec.replicas, with spec.kubeAPIServer.workload Deployment"},

		{"host's processes", schedulerPods(`{"hostPID":true}`), scheduler + "spec.template.spec.hostPID cannot be patched: "},
		{"network of its own", schedulerPods(`{"hostNetwork":false}`), scheduler + "spec.template.spec.hostNetwork cannot be patched: "},
		{"token", schedulerPods(`{"automountServiceAccountToken":true}`), scheduler + "spec.template.spec.automountServiceAccountToken cannot be patched: "},
		{"service account", schedulerPods(`{"serviceAccountName":"admin"}`), scheduler + "spec.template.spec.serviceAccountName cannot be patched: "},
		{"a fixed node", schedulerPods(`{"nodeName":"a"}`), scheduler + "spec.template.spec.nodeName cannot be patched: "},
		{"less time to stop", podPatch("kube-apiserver", "DaemonSet", `{"terminationGracePeriodSeconds":1}`), "spec.template.spec.terminationGracePeriodSeconds cannot be patched: "},
		{"other nodes", schedulerPods(`{"nodeSelector":{"kok.cluster.x-k8s.io/host-node":null}}`),
			scheduler + "spec.template.spec.nodeSelector[kok.cluster.x-k8s.io/host-node] cannot be patched: set spec.hosting.nodeSelector"},
		{"tolerations replaced", schedulerPods(`{"tolerations":[{"key":"a","operator":"Exists"}]}`),
			scheduler + "spec.template.spec.tolerations must start with what is rendered: a strategic merge patch replaces the list; add to it with a JSON6902 patch whose path ends in /tolerations/-, or for all components with spec.hosting.tolerations"},
		{"toleration that counts before ours", operations("kube-scheduler", "Deployment", "{op: add, path: /spec/template/spec/tolerations/0, value: {operator: Exists, tolerationSeconds: 1, effect: NoExecute}}"),
			scheduler + "spec.template.spec.tolerations must start with what is rendered: "},
		{"root", schedulerPods(`{"securityContext":{"runAsNonRoot":false}}`),
			scheduler + "spec.template.spec.securityContext[runAsNonRoot] cannot be patched: pods run without privileges, remove it from the patch"},
		{"root in a container", schedulerPods(`{"containers":[{"name":"kube-scheduler","securityContext":{"runAsUser":0}}]}`),
			scheduler + restricted + `runAsUser=0 (container "kube-scheduler" must not set runAsUser=0)`},
		{"capability", schedulerPods(`{"containers":[{"name":"kube-scheduler","securityContext":{"capabilities":{"add":["SYS_ADMIN"]}}}]}`),
			scheduler + "spec.template.spec.containers[kube-scheduler].securityContext[capabilities] cannot be patched: containers run without privileges, remove it from the patch"},
		{"privileged", schedulerPods(`{"containers":[{"name":"kube-scheduler","securityContext":{"privileged":true}}]}`),
			scheduler + restricted + `privileged (container "kube-scheduler" must not set securityContext.privileged=true)`},
		{"unsafe sysctl", schedulerPods(`{"securityContext":{"sysctls":[{"name":"kernel.msgmax","value":"1"}]}}`), scheduler + restricted + "forbidden sysctls (kernel.msgmax)"},

		{"host's files", schedulerPods(`{"volumes":[{"name":"a","hostPath":{"path":"/"}}]}`), scheduler + "spec.template.spec.volumes[a]" + oneOf},
		{"another's data", schedulerPods(`{"volumes":[{"name":"a","persistentVolumeClaim":{"claimName":"kok-data-other-etcd-data-0"}}]}`), scheduler + "spec.template.spec.volumes[a]" + oneOf},
		{"token by a volume", schedulerPods(`{"volumes":[{"name":"a","projected":{"sources":[{"serviceAccountToken":{"path":"token"}}]}}]}`), scheduler + "spec.template.spec.volumes[a]" + oneOf},
		{"a whole disk", schedulerPods(`{"volumes":[{"name":"a","emptyDir":{}}]}`),
			scheduler + "spec.template.spec.volumes[a].emptyDir.sizeLimit must be set: without it one control plane could fill a host node's disk"},
		{"volume with a name of ours", schedulerPods(`{"volumes":[{"name":"kok-a","configMap":{"name":"a"}}]}`),
			scheduler + "spec.template.spec.volumes[kok-a] cannot be added: names with the prefix kok- belong to the controller, choose another"},
		{"keys of a tenant", schedulerPods(`{"volumes":[{"name":"a","secret":{"secretName":"other-ca"}}]}`),
			scheduler + "volume a cannot use Secret other-ca: Secrets whose names end in -ca hold keys of tenants; use a Secret of another name"},
		{"keys of a tenant among others", schedulerPods(`{"volumes":[{"name":"a","projected":{"sources":[{"secret":{"name":"other-kubeconfig"}}]}}]}`),
			scheduler + "volume a cannot use Secret other-kubeconfig: "},
		{"keys of a tenant in a variable", schedulerPods(`{"containers":[{"name":"kube-scheduler","env":[{"name":"KEY","valueFrom":{"secretKeyRef":{"name":"other-sa","key":"a"}}}]}]}`),
			scheduler + "container kube-scheduler cannot use Secret other-sa: "},
		{"keys of a tenant in all variables", schedulerPods(`{"containers":[{"name":"kube-scheduler","envFrom":[{"secretRef":{"name":"other-proxy"}}]}]}`),
			scheduler + "container kube-scheduler cannot use Secret other-proxy: "},

		{"sidecar with a port", schedulerPods(`{"containers":[{"name":"a","image":"a:b","ports":[{"containerPort":9100}]}]}`),
			scheduler + "container a cannot declare ports: every port is the controller's to choose; those of a host node are of the tenant's block, set spec.hosting.ports; let it listen on loopback or on a socket in an emptyDir"},
		{"sidecar that writes its image", schedulerPods(`{"containers":[{"name":"a","image":"a:b","securityContext":{"readOnlyRootFilesystem":false}}]}`),
			scheduler + "container a must have a read-only root file system: mount an emptyDir with a sizeLimit where it writes"},
		{"sidecar with privileges", schedulerPods(`{"containers":[{"name":"a","image":"a:b","securityContext":{"allowPrivilegeEscalation":true}}]}`),
			scheduler + restricted + `allowPrivilegeEscalation != false (container "a" must set securityContext.allowPrivilegeEscalation=false)`},
		{"sidecar with keys", schedulerPods(`{"containers":[{"name":"a","image":"a:b","volumeMounts":[{"name":"kok-key-material","mountPath":"/a"}]}]}`),
			scheduler + "container a cannot mount kok-key-material, which holds keys or data of the tenant"},
		{"sidecar with konnectivity's keys", podPatch("kube-apiserver", "DaemonSet", `{"containers":[{"name":"a","image":"a:b","volumeMounts":[{"name":"kok-konnectivity-pki","mountPath":"/a"}]}]}`),
			"container a cannot mount kok-konnectivity-pki, which holds keys or data of the tenant"},
		{"sidecar with the data of etcd", podPatch("etcd-data", "StatefulSet", `{"containers":[{"name":"a","image":"a:b","volumeMounts":[{"name":"kok-data","mountPath":"/a"}]}]}`),
			"container a cannot mount kok-data, which holds keys or data of the tenant"},
		{"container that passes for ours", schedulerPods(`{"initContainers":[{"name":"kube-scheduler","image":"a:b","ports":[{"containerPort":80}]}]}`),
			scheduler + "two containers are named kube-scheduler; choose another name"},
		{"init container with privileges", schedulerPods(`{"initContainers":[{"name":"a","image":"a:b","securityContext":{"privileged":true,"capabilities":{"add":["NET_ADMIN"]}}}]}`),
			scheduler + restricted + "privileged"},

		{"name of an addon's object", merge("coredns", "Service", "metadata: {name: dns}"), "Service of coredns: metadata.name cannot be patched: " + metadataCan},
		{"label of an addon", merge("coredns", "Deployment", "metadata: {labels: {kok.cluster.x-k8s.io/addon: other}}"), "Deployment of coredns: metadata.labels[kok.cluster.x-k8s.io/addon]" + marked},
		{"address of DNS", merge("coredns", "Service", "spec: {clusterIP: 10.96.0.53}"), "Service of coredns: spec.clusterIP cannot be patched: kubelets give this address to pods"},
		{"replicas of CoreDNS", merge("coredns", "Deployment", "spec: {replicas: 3}"), "Deployment of coredns: spec.replicas cannot be patched: set spec.addons.coreDNS.replicas"},
		{"image of CoreDNS", podPatch("coredns", "Deployment", `{"containers":[{"name":"coredns","image":"a:b"}]}`), "containers[coredns].image cannot be patched: set spec.addons.coreDNS.image"},
		{"image of kube-proxy", podPatch("kube-proxy", "DaemonSet", `{"containers":[{"name":"kube-proxy","image":"a:b"}]}`), "containers[kube-proxy].image cannot be patched: set spec.addons.kubeProxy.image"},
		{"image of konnectivity's agent", podPatch("konnectivity", "DaemonSet", `{"containers":[{"name":"konnectivity-agent","image":"a:b"}]}`),
			"containers[konnectivity-agent].image cannot be patched: set spec.addons.konnectivity.agentImage"},
		{"pods of an addon", merge("kube-proxy", "DaemonSet", "spec: {selector: {matchLabels: {a: b}}}"), "spec.selector cannot be patched: objects and pods are found by it"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			objects := renderAll(t, tc.patch.Target.Component)
			_, err := patches.Apply(target(tc.patch.Target.Component), objects, []controlplanev1.Patch{merge("none", "None", ""), tc.patch}, nil)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("got  %v\nwant %s", err, tc.want)
			}
			if !patches.IsRefused(fmt.Errorf("wrapped: %w", err)) || !strings.HasPrefix(err.Error(), "spec.patches[1]: ") {
				t.Errorf("it does not name the patch: %v", err)
			}
		})
	}
}

// apply applies patches of one component, which must be possible, and gives the object of a type.
func apply[T client.Object](t *testing.T, list ...controlplanev1.Patch) T {
	t.Helper()
	component := list[0].Target.Component
	objects, err := patches.Apply(target(component), render(t, component), list, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		if found, ok := object.(T); ok && found.GetObjectKind().GroupVersionKind().Kind == list[0].Target.Kind {
			return found
		}
	}
	t.Fatalf("%s has no %T", component, *new(T))
	return *new(T)
}

func TestASidecarIsConfinedAsTheComponentIs(t *testing.T) {
	pod := apply[*appsv1.DaemonSet](t, podPatch("kube-apiserver", "DaemonSet",
		`{"containers":[{"name":"a","image":"a:b","volumeMounts":[{"name":"kok-audit","mountPath":"/a"}]}],"initContainers":[{"name":"b","image":"a:b"}]}`)).Spec.Template.Spec
	if pod.Containers[0].Name != "kube-apiserver" || pod.Containers[1].Name != "a" {
		t.Errorf("the component's container is not the first: %v", pod.Containers)
	}
	own := pod.Containers[0].SecurityContext
	added := 0
	for _, container := range slices.Concat(pod.Containers, pod.InitContainers) {
		if container.Name == "a" || container.Name == "b" {
			added++
		}
		if !reflect.DeepEqual(container.SecurityContext, own) || container.TerminationMessagePolicy != corev1.TerminationMessageFallbackToLogsOnError {
			t.Errorf("%s has %v", container.Name, container.SecurityContext)
		}
	}
	if added != 2 {
		t.Errorf("%d containers were added", added)
	}
}

func TestWhatAPersonMayDecide(t *testing.T) {
	pod := apply[*appsv1.Deployment](t, schedulerPods(`{
		"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"rack","operator":"In","values":["a"]}]}]}}},
		"dnsPolicy":"None","dnsConfig":{"nameservers":["192.0.2.1"]},"hostAliases":[{"ip":"192.0.2.1","hostnames":["a"]}],
		"imagePullSecrets":[{"name":"registry"}],"nodeSelector":{"rack":"a"},"preemptionPolicy":"Never","priorityClassName":"mine",
		"runtimeClassName":"isolated","schedulerName":"mine","securityContext":{"supplementalGroups":[7]},
		"volumes":[{"name":"a","secret":{"secretName":"a"}}],
		"containers":[{"name":"kube-scheduler","resources":{"limits":{"cpu":"1"}},"imagePullPolicy":"Always","env":[{"name":"GOGC","value":"50"}],
			"envFrom":[{"configMapRef":{"name":"a"}}],"startupProbe":{"failureThreshold":2000},"volumeMounts":[{"name":"a","mountPath":"/a"}],
			"securityContext":{"appArmorProfile":{"type":"RuntimeDefault"}}}]}`)).Spec.Template.Spec
	own := pod.Containers[0]
	for what, is := range map[string]bool{
		"affinity":      pod.Affinity != nil,
		"dns":           pod.DNSPolicy == corev1.DNSNone && pod.DNSConfig != nil && len(pod.HostAliases) == 1,
		"pull secrets":  len(pod.ImagePullSecrets) == 1,
		"nodes":         pod.NodeSelector["rack"] == "a",
		"priority":      pod.PriorityClassName == "mine" && *pod.PreemptionPolicy == corev1.PreemptNever,
		"runtime class": *pod.RuntimeClassName == "isolated",
		"scheduler":     pod.SchedulerName == "mine",
		"groups":        slices.Equal(pod.SecurityContext.SupplementalGroups, []int64{7}) && *pod.SecurityContext.RunAsNonRoot,
		"volumes":       len(own.VolumeMounts) == 3 && len(pod.Volumes) == 3,
		"resources":     own.Resources.Limits.Cpu().String() == "1" && own.Resources.Requests.Cpu().String() == "25m",
		"pull policy":   own.ImagePullPolicy == corev1.PullAlways,
		"variables":     len(own.Env) == 1 && len(own.EnvFrom) == 1,
		"probe":         own.StartupProbe.FailureThreshold == 2000 && own.StartupProbe.PeriodSeconds == 1,
		"profile":       own.SecurityContext.AppArmorProfile != nil,
	} {
		if !is {
			t.Errorf("the pod has not its %s: %+v", what, pod)
		}
	}
	budget := apply[*policyv1.PodDisruptionBudget](t, merge("kube-scheduler", "PodDisruptionBudget", "spec: {maxUnavailable: 2}"))
	if *budget.Spec.MaxUnavailable != intstr.FromInt32(2) {
		t.Errorf("the budget is %v", budget.Spec)
	}
	for _, patch := range []controlplanev1.Patch{
		merge("kube-scheduler", "PodDisruptionBudget", "spec: {minAvailable: 1, maxUnavailable: null}"),
		operations("kube-scheduler", "PodDisruptionBudget", "{op: remove, path: /spec/maxUnavailable}", "{op: add, path: /spec/minAvailable, value: 1}"),
	} {
		budget := apply[*policyv1.PodDisruptionBudget](t, patch)
		if budget.Spec.MaxUnavailable != nil || *budget.Spec.MinAvailable != intstr.FromInt32(1) {
			t.Errorf("the budget is %v", budget.Spec)
		}
	}
}

func TestAddonsAreAPersonsOwn(t *testing.T) {
	config := apply[*corev1.ConfigMap](t, merge("coredns", "ConfigMap", "data: {Corefile: '.:53 { whoami }', more: a}"))
	if config.Data["Corefile"] != ".:53 { whoami }" || config.Data["more"] != "a" {
		t.Errorf("the ConfigMap is %v", config.Data)
	}
	pod := apply[*appsv1.DaemonSet](t, podPatch("konnectivity", "DaemonSet",
		`{"tolerations":null,"serviceAccountName":"other","containers":[{"name":"konnectivity-agent","args":["--v=4"],"resources":null}]}`)).Spec.Template.Spec
	if len(pod.Tolerations) > 0 || pod.ServiceAccountName != "other" || len(pod.Containers[0].Args) != 1 || len(pod.Containers[0].Resources.Requests) > 0 {
		t.Errorf("the pod is %v", pod)
	}
}

func TestPatchesAreAppliedOneAfterTheOther(t *testing.T) {
	d := apply[*appsv1.Deployment](t,
		merge("kube-scheduler", "Deployment", "metadata: {annotations: {example/a: first, example/b: first}}"),
		operations("kube-scheduler", "Deployment", "{op: test, path: /metadata/annotations/example~1a, value: first}", "{op: replace, path: /metadata/annotations/example~1a, value: second}"),
		merge("kube-scheduler", "Deployment", "metadata: {annotations: {example/b: null}}"),
		schedulerPods(`{"containers":[{"name":"a","image":"a:b"}]}`),
		schedulerPods(`{"containers":[{"name":"a","image":"a:c"}]}`),
	)
	if len(d.Annotations) != 1 || d.Annotations["example/a"] != "second" || d.Spec.Template.Spec.Containers[1].Image != "a:c" {
		t.Errorf("the Deployment is %v", d)
	}
}

// Patches written for kustomize repeat what they are for.
func TestAPatchMayRepeatItsTarget(t *testing.T) {
	d := apply[*appsv1.Deployment](t, merge("kube-scheduler", "Deployment", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {annotations: {a: b}}\nspec: {replicas: 2}"))
	if d.Annotations["a"] != "b" {
		t.Errorf("annotations %v", d.Annotations)
	}
}

func TestObjectsThatArePatchedStayAsTheyWere(t *testing.T) {
	objects := render(t, "kube-apiserver")
	_, err := patches.Apply(target("kube-apiserver"), objects, []controlplanev1.Patch{
		podPatch("kube-apiserver", "DaemonSet", `{"nodeSelector":{"a":"b"},"containers":[{"name":"a","image":"a:b"}]}`),
		merge("kube-apiserver", "Service", "metadata: {labels: {a: b}}"),
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(objects, render(t, "kube-apiserver")) {
		t.Error("they changed")
	}
}

// The budget of a single replica is not there; its patch is for when it is.
func TestAPatchWaitsForAnObjectThatIsNotThere(t *testing.T) {
	objects := slices.DeleteFunc(render(t, "kube-scheduler"), func(object client.Object) bool {
		return object.GetObjectKind().GroupVersionKind().Kind == "PodDisruptionBudget"
	})
	patched, err := patches.Apply(target("kube-scheduler"), objects, []controlplanev1.Patch{merge("kube-scheduler", "PodDisruptionBudget", "metadata: {labels: {a: b}}")}, nil)
	if err != nil || !reflect.DeepEqual(patched, objects) {
		t.Errorf("%v, %v", patched, err)
	}
}

func TestWhatIsAddedCanBeLimited(t *testing.T) {
	list := []controlplanev1.Patch{
		schedulerPods(`{"containers":[{"name":"a","image":"a:b"},{"name":"kube-scheduler","imagePullPolicy":"Always"}]}`),
		operations("kube-scheduler", "Deployment", "{op: add, path: /spec/template/spec/tolerations/-, value: {key: a, operator: Exists}}"),
	}
	var seen []patches.Additions
	_, err := patches.Apply(target("kube-scheduler"), render(t, "kube-scheduler"), list, func(added patches.Additions) []string {
		seen = append(seen, added)
		if len(added.Tolerations) > 0 {
			return []string{"no tolerations"}
		}
		return nil
	})
	var refused *patches.Error
	if !errors.As(err, &refused) || refused.Index != 1 || refused.Problem != "no tolerations" {
		t.Errorf("the error is %v", err)
	}
	if len(seen) != 2 || len(seen[0].Containers) != 1 || seen[0].Containers[0].Name != "a" || len(seen[0].Tolerations) != 0 || seen[1].Tolerations[0].Key != "a" {
		t.Errorf("it was asked about %+v", seen)
	}
}

// Each kind that a component has, but for Secrets, is in the tables: a new one must be thought about.
func TestEveryKindOfEveryComponentHasRules(t *testing.T) {
	names := []string{}
	for _, c := range registry.Components {
		names = append(names, c.Name)
	}
	for _, a := range addons.All {
		names = append(names, a.Name)
	}
	for _, component := range names {
		for _, object := range renderAll(t, component) {
			kind := object.GetObjectKind().GroupVersionKind().Kind
			patched, err := patches.Apply(target(component), []client.Object{object}, []controlplanev1.Patch{merge(component, kind, "metadata: {annotations: {a: b}}")}, nil)
			if err != nil || patched[0].GetAnnotations()["a"] != "b" {
				t.Errorf("%s of %s: %v", kind, component, err)
			}
		}
	}
}

// What the standard says of pods, ours meet before any patch, but for the host's network.
func TestRenderedPodsMeetTheStandardThatPatchedOnesAreHeldTo(t *testing.T) {
	for _, component := range registry.Components {
		for kind := range map[string]bool{"StatefulSet": true, "DaemonSet": true, "Deployment": true} {
			_, err := patches.Apply(target(component.Name), renderAll(t, component.Name), []controlplanev1.Patch{merge(component.Name, kind, "{}")}, nil)
			if err != nil && !strings.Contains(err.Error(), "has no "+kind) {
				t.Error(err)
			}
		}
	}
}

// Texts of persons must never end the program, whatever they are.
func FuzzApply(f *testing.F) {
	for _, seed := range []string{
		"{}", "[]", "spec: {replicas: 1}", "$patch: delete", "spec: {template: {spec: {containers: [{$patch: replace}]}}}",
		"spec: {template: {spec: {$setElementOrder/containers: [{name: a}], containers: [{name: a}]}}}",
		"spec: {template: {spec: {containers: [a, null, 1], $deleteFromPrimitiveList/containers: [a]}}}",
		"metadata: {$retainKeys: [name], labels: null, finalizers: [a], $deleteFromPrimitiveList/finalizers: [b]}",
		"$patch: 1", "$patch: [a]", "$retainKeys: a", "metadata: a", "spec: [a]", "metadata: {labels: [a]}", "$setElementOrder/spec: [a]",
		"spec: {template: {spec: {containers: a, tolerations: {a: b}}}}", "spec: {template: {spec: {containers: {name: a}}}}",
		"spec: {template: {spec: {$setElementOrder/containers: a, containers: [{name: [a]}, {image: a}, [a]]}}}",
		"spec: {template: {spec: {$setElementOrder/containers: [a, {b: c}], $deleteFromPrimitiveList/containers: a}}}",
		"spec: {template: {spec: {containers: [{$patch: merge}, {$patch: delete, name: 1}, {$patch: a, name: b}]}}}",
		"metadata: {$deleteFromPrimitiveList/finalizers: {a: b}, $setElementOrder/finalizers: 1, finalizers: {a: b}}",
		"spec: {template: {spec: {volumes: [{name: kok-certs, $retainKeys: [1], secret: null}]}}}",
		"spec: {template: {spec: {volumes: [{name: kok-certs, $retainKeys: a}]}}}", "data: [a]", "data: {a: {b: c}}",
		"- {op: add, path: /spec/template/spec/containers/-, value: null}", "- {op: move, from: /spec, path: /metadata}",
		"- {op: copy, from: '', path: /a}", "- {op: remove, path: ''}", "- null", "- {op: add, path: /spec/template/spec/tolerations/-1, value: {}}",
		"spec: {template: {spec: {volumes: [{name: [0]}]}}}", "spec: {template: {spec: {volumes: [{name: {a: b}}], tolerations: [{key: [a]}]}}}",
		"a: &a [b]\nc: [*a, *a]", "---\n---\n", "? [a]\n: b",
	} {
		for kind := range uint8(4) {
			f.Add(seed, kind)
		}
	}
	scheduler, apiServer := render(f, "kube-scheduler"), render(f, "kube-apiserver")
	f.Fuzz(func(t *testing.T, text string, variant uint8) {
		component, kind, objects := "kube-scheduler", "Deployment", scheduler
		if variant&1 > 0 {
			component, kind, objects = "kube-apiserver", []string{"DaemonSet", "Service", "ConfigMap"}[variant>>2%3], apiServer
		}
		patch := merge(component, kind, text)
		if variant&2 > 0 {
			patch.Type = controlplanev1.PatchJSON6902
		}
		patched, err := patches.Apply(target(component), objects, []controlplanev1.Patch{patch}, nil)
		if err != nil {
			if !patches.IsRefused(err) {
				t.Errorf("%v", err)
			}
			return
		}
		for i, object := range patched {
			if object.GetName() != objects[i].GetName() || object.GetLabels()["app.kubernetes.io/component"] != component || len(object.GetFinalizers()) > 0 {
				t.Errorf("it made %v", object.GetName())
			}
		}
	})
}
