package controllers

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/addons/addon"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/addons/konnectivity"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/kubeapiserver"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

func flagsOf(container corev1.Container) map[string]string {
	flags := map[string]string{}
	for _, arg := range container.Args {
		name, value, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		flags[name] = value
	}
	return flags
}

// Server and agent are rendered apart, one in the host cluster and one in the tenant.
func TestKonnectivitysServersAndAgentsFitTogether(t *testing.T) {
	of := issue(t, "blue", "")
	server := flagsOf(podOf(t, of, kubeapiserver.Component).InitContainers[0])
	objects, err := konnectivity.Addon.Objects(&addon.Input{Server: "127.0.0.1:6443"})
	if err != nil {
		t.Fatal(err)
	}
	pod := addon.Find[*appsv1.DaemonSet](objects).Spec.Template.Spec
	agent := flagsOf(pod.Containers[0])
	for _, name := range []string{"lease-namespace", "lease-label"} {
		if server[name] == "" || server[name] != agent[name] {
			t.Errorf("--%s is %q of the server and %q of the agent", name, server[name], agent[name])
		}
	}
	namespace := addon.Find[*corev1.Namespace](objects).Name
	if namespace != server["lease-namespace"] {
		t.Errorf("leases are in namespace %s, which is not %s", server["lease-namespace"], namespace)
	}
	account := addon.Find[*corev1.ServiceAccount](objects)
	if pod.ServiceAccountName != account.Name || server["agent-service-account"] != account.Name || server["agent-namespace"] != account.Namespace {
		t.Errorf("the server lets in %s/%s, the agent is %s/%s", server["agent-namespace"], server["agent-service-account"], account.Namespace, pod.ServiceAccountName)
	}
	i := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Projected != nil })
	token := pod.Volumes[i].Projected.Sources[0].ServiceAccountToken
	if token.Audience != server["authentication-audience"] {
		t.Errorf("tokens are for %q, the server takes those for %q", token.Audience, server["authentication-audience"])
	}
	if file := agent["service-account-token-path"]; !strings.HasSuffix(file, "/"+token.Path) {
		t.Errorf("the agent reads its token from %s", file)
	}
	serving := of.certificate(t, names.KubeAPIServer, kubeapiserver.KonnectivityServerCert)
	if err := serving.VerifyHostname(agent["proxy-server-host"]); err != nil {
		t.Errorf("agents expect a server that ours is not: %v", err)
	}
	if err := serving.VerifyHostname("kubernetes.default.svc"); err == nil {
		t.Error("the server could be taken for kube-apiserver")
	}
}

func TestKonnectivitysServersHaveRightsUnderTheirName(t *testing.T) {
	of := issue(t, "blue", "")
	config, err := clientcmd.Load(of.data[names.KubeAPIServer][kubeapiserver.KonnectivityKubeconfigFile])
	if err != nil {
		t.Fatal(err)
	}
	access := config.Contexts[config.CurrentContext]
	if server := config.Clusters[access.Cluster].Server; server != "https://127.0.0.1:20000" {
		t.Errorf("they dial %s", server)
	}
	apiServer := of.certificate(t, names.KubeAPIServer, kubeapiserver.ServerCert)
	if err := apiServer.VerifyHostname(config.Clusters[access.Cluster].TLSServerName); err != nil {
		t.Error(err)
	}
	user := of.certificate(t, names.KubeAPIServer, kubeapiserver.KonnectivityClientCert).Subject.CommonName
	objects, err := konnectivity.Addon.Objects(&addon.Input{Server: "127.0.0.1:6443"})
	if err != nil {
		t.Fatal(err)
	}
	bound := 0
	for _, object := range objects {
		for _, subject := range subjectsOf(object) {
			if subject.Kind == rbacv1.UserKind {
				bound++
				if subject.Name != user || subject.APIGroup != rbacv1.GroupName {
					t.Errorf("%T %s is for %v, they are %s", object, object.GetName(), subject, user)
				}
			}
		}
	}
	if bound != 2 {
		t.Errorf("%d bindings are for them, want those of tokens and of leases", bound)
	}
}

func subjectsOf(object client.Object) []rbacv1.Subject {
	switch binding := object.(type) {
	case *rbacv1.RoleBinding:
		return binding.Subjects
	case *rbacv1.ClusterRoleBinding:
		return binding.Subjects
	}
	return nil
}
