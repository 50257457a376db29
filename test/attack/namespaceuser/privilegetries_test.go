//go:build attack

package namespaceuser

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// edit changes a control plane before it is made.
type edit = func(*controlplanev1.KOKControlPlane)

// patched is a control plane with a patch.
func patched(component, kind, patch string) edit {
	return func(c *controlplanev1.KOKControlPlane) {
		made := controlplanev1.Patch{Target: controlplanev1.PatchTarget{Component: component, Kind: kind}, Type: controlplanev1.PatchStrategicMerge, Patch: patch}
		if patch[0] == '[' {
			made.Type = controlplanev1.PatchJSON6902
		}
		c.Spec.Patches = append(c.Spec.Patches, made)
	}
}

// members is one whose pods of etcd, which come first, have something more, or else.
func members(podSpec string) edit {
	return patched(names.EtcdData, "StatefulSet", `{"spec":{"template":{"spec":`+podSpec+`}}}`)
}

// refused is a try of a control plane that the webhook, or the schema, refuses.
func refused(permitted, attack edit, stoppedBy string) try {
	return try{
		control:   func(a *attacker) error { return a.mayHave(permitted) },
		attack:    func(a *attacker) (client.Object, error) { return a.tenant(attack) },
		stoppedBy: stoppedBy,
	}
}

const (
	// beside is a container that a patch may add.
	beside = `{"containers":[{"name":"beside","image":"a.example/a:v1"%s}]%s}`
	// restricted is what pods must meet.
	restricted = "must meet the Pod Security Standard restricted"
	// mounts is that container with a volume.
	mounts = `{"containers":[{"name":"beside","image":"a.example/a:v1","volumeMounts":[{"name":"extra","mountPath":"/extra"}]}],"volumes":[{"name":"extra",%s}]}`
)

func addsContainer(container, pod string) edit { return members(fmt.Sprintf(beside, container, pod)) }

func addsVolume(source string) edit { return members(fmt.Sprintf(mounts, source)) }

func TestPatchesGiveNoPrivileges(t *testing.T) {
	plain := addsContainer("", "")
	emptyDir := addsVolume(`"emptyDir":{"sizeLimit":"1Mi"}`)
	tries := map[string]try{
		"a privileged container":                        refused(plain, addsContainer(`,"securityContext":{"privileged":true}`, ""), restricted),
		"a container that may gain privileges":          refused(plain, addsContainer(`,"securityContext":{"allowPrivilegeEscalation":true}`, ""), restricted),
		"a container with a capability":                 refused(plain, addsContainer(`,"securityContext":{"capabilities":{"add":["SYS_ADMIN"],"drop":["ALL"]}}`, ""), restricted),
		"a container without a filter of system calls":  refused(plain, addsContainer(`,"securityContext":{"seccompProfile":{"type":"Unconfined"}}`, ""), restricted),
		"a container that is root":                      refused(plain, addsContainer(`,"securityContext":{"runAsUser":0}`, ""), restricted),
		"the component as root":                         refused(plain, members(`{"containers":[{"name":"etcd","securityContext":{"runAsUser":0}}]}`), restricted),
		"the pod as root":                               refused(plain, members(`{"securityContext":{"runAsUser":0}}`), "cannot be patched"),
		"the host's processes":                          refused(plain, members(`{"hostPID":true}`), "spec.template.spec.hostPID cannot be patched"),
		"the host's IPC":                                refused(plain, members(`{"hostIPC":true}`), "spec.template.spec.hostIPC cannot be patched"),
		"the host's users":                              refused(plain, members(`{"hostUsers":true}`), "spec.template.spec.hostUsers cannot be patched"),
		"a folder of the host":                          refused(emptyDir, addsVolume(`"hostPath":{"path":"/etc/kubernetes"}`), "cannot be added: a volume must be"),
		"the socket of the container runtime":           refused(emptyDir, addsVolume(`"hostPath":{"path":"/run/containerd/containerd.sock","type":"Socket"}`), "cannot be added: a volume must be"),
		"a volume of the storage network":               refused(emptyDir, addsVolume(`"nfs":{"server":"a.example","path":"/"}`), "cannot be added: a volume must be"),
		"a claim of another":                            refused(emptyDir, addsVolume(`"persistentVolumeClaim":{"claimName":"kok-data-red-etcd-data-0"}`), "cannot be added: a volume must be"),
		"a driver of volumes":                           refused(emptyDir, addsVolume(`"csi":{"driver":"a.example"}`), "cannot be added: a volume must be"),
		"a service account's token in a volume":         refused(emptyDir, addsVolume(`"projected":{"sources":[{"serviceAccountToken":{"path":"token"}}]}`), "cannot be added: a volume must be"),
		"the default service account's token":           refused(plain, members(`{"automountServiceAccountToken":true}`), "automountServiceAccountToken cannot be patched"),
		"a service account":                             refused(plain, members(`{"serviceAccountName":"manager"}`), "serviceAccountName cannot be patched"),
		"a node by its name":                            refused(plain, members(`{"nodeName":"control-plane-1"}`), "nodeName cannot be patched"),
		"other nodes":                                   refused(members(`{"nodeSelector":{"rack":"1"}}`), members(`{"nodeSelector":{"kok.cluster.x-k8s.io/host-node":null}}`), "cannot be patched"),
		"another container's program":                   refused(plain, members(`{"containers":[{"name":"etcd","command":["sh"]}]}`), "cannot be patched"),
		"every taint, by a list that is replaced":       refused(tolerating(`{"key":"dedicated","operator":"Exists"}`), tolerating(`{"operator":"Exists"}`), "must be set: without it every taint is tolerated"),
		"the taint of the host cluster's control plane": refused(tolerating(`{"key":"dedicated","operator":"Exists"}`), tolerating(`{"key":"node-role.kubernetes.io/control-plane","operator":"Exists"}`), "is the taint of the host cluster's own control plane"),
		"the taint of a port pool":                      refused(tolerating(`{"key":"dedicated","operator":"Exists"}`), tolerating(`{"key":"kok.cluster.x-k8s.io/port-pool","value":"north"}`), "is the taint of the host nodes of a port pool"),
	}
	for component, kind := range map[string]string{
		names.EtcdEvents: "StatefulSet", names.KubeAPIServer: "DaemonSet", names.KubeControllerManager: "Deployment", names.KubeScheduler: "Deployment",
	} {
		container := component
		if component == names.EtcdEvents {
			container = "etcd"
		}
		privileged := `{"spec":{"template":{"spec":{"containers":[{"name":"` + container + `","securityContext":{"privileged":true}}]}}}}`
		tries["a privileged "+component] = refused(plain, patched(component, kind, privileged), restricted)
	}
	a := newAttacker(t)
	a.attempt(t, tries)
}

// tolerating is a control plane whose etcd has one toleration more.
func tolerating(toleration string) edit {
	return patched(names.EtcdData, "StatefulSet", `[{"op":"add","path":"/spec/template/spec/tolerations/-","value":`+toleration+`}]`)
}

func TestTheSpecGivesNoOtherNodes(t *testing.T) {
	nodes := func(labels map[string]string) edit {
		return func(c *controlplanev1.KOKControlPlane) { c.Spec.Hosting.NodeSelector = labels }
	}
	tolerates := func(toleration corev1.Toleration) edit {
		return func(c *controlplanev1.KOKControlPlane) { c.Spec.Hosting.Tolerations = []corev1.Toleration{toleration} }
	}
	own := map[string]string{controlplanev1.HostNodeLabel: "true", "rack": "1"}
	dedicated := corev1.Toleration{Key: "dedicated", Operator: corev1.TolerationOpExists}
	tries := map[string]try{
		"nodes for other things":           refused(nodes(own), nodes(map[string]string{"kubernetes.io/os": "linux"}), "must contain kok.cluster.x-k8s.io/host-node=true"),
		"the host cluster's control plane": refused(nodes(own), nodes(map[string]string{"node-role.kubernetes.io/control-plane": ""}), "must contain kok.cluster.x-k8s.io/host-node=true"),
		"every taint":                      refused(tolerates(dedicated), tolerates(corev1.Toleration{Operator: corev1.TolerationOpExists}), "must be set: without it every taint is tolerated"),
		"its taint":                        refused(tolerates(dedicated), tolerates(corev1.Toleration{Key: "node-role.kubernetes.io/control-plane", Operator: corev1.TolerationOpExists}), "is the taint of the host cluster's own control plane"),
		"the host nodes of a port pool":    refused(nodes(own), nodes(map[string]string{controlplanev1.HostNodeLabel: "true", controlplanev1.PortPoolLabel: "north"}), "is the label of the host nodes of a port pool"),
		"the taint of a port pool":         refused(tolerates(dedicated), tolerates(corev1.Toleration{Key: controlplanev1.PortPoolLabel, Value: "north"}), "is the taint of the host nodes of a port pool"),
	}
	a := newAttacker(t)
	a.attempt(t, tries)
	a.attempt(t, map[string]try{"a template for nodes of other kinds": {
		control: func(a *attacker) error { return a.client.Create(t.Context(), templateOf(a, own), client.DryRunAll) },
		attack: func(a *attacker) (client.Object, error) {
			made := templateOf(a, map[string]string{"kubernetes.io/os": "linux"})
			return made, a.client.Create(t.Context(), made)
		},
		stoppedBy: "must contain kok.cluster.x-k8s.io/host-node=true",
	}})
}

func templateOf(a *attacker, nodes map[string]string) *controlplanev1.KOKControlPlaneTemplate {
	made := &controlplanev1.KOKControlPlaneTemplate{ObjectMeta: a.meta(a.fresh("template"))}
	made.Spec.Template.Spec.Hosting.NodeSelector = nodes
	return made
}

// The victim's users are known to everybody who knows its ports, or the name of its Cluster.
func TestNobodyRunsAsAnotherTenantsUser(t *testing.T) {
	plain := addsContainer(`,"securityContext":{"runAsUser":1000}`, "")
	tries := map[string]try{}
	users := slices.Compact(slices.Sorted(slices.Values(victims.users)))
	for i, network := range []string{"on the host network", "on the pod network"} {
		for name, security := range map[string]string{
			"a container as the user of a tenant ":  `"runAsUser":%d`,
			"a container in the group of a tenant ": `"runAsGroup":%d`,
		} {
			tries[name+network] = refused(plain, addsContainer(`,"securityContext":{`+fmt.Sprintf(security, users[i])+`}`, ""), "are those of tenants")
		}
		tries["the component as the user of a tenant "+network] = refused(plain,
			members(fmt.Sprintf(`{"containers":[{"name":"etcd","securityContext":{"runAsUser":%d}}]}`, users[i])), "are those of tenants")
		tries["a pod with the group of a tenant "+network] = refused(plain,
			members(fmt.Sprintf(`{"securityContext":{"supplementalGroups":[%d]}}`, users[i])), "are those of tenants")
	}
	a := newAttacker(t)
	a.attempt(t, tries)
	if len(users) != 2 || len(slices.Collect(maps.Keys(tries))) != 8 {
		t.Errorf("the victim has the users %v", users)
	}
}
