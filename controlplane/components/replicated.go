package components

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// Files in the Secret with certificates of a component that talks to kube-apiserver.
const (
	// ServerCert is the leaf that the component serves with, ClientCert the one it dials with.
	ServerCert = "server"
	ClientCert = "client"
	// KubeconfigFile names its certificates by path: a renewed one needs no restart.
	KubeconfigFile = "kubeconfig"
	// CertsDirectory and KeyMaterialDirectory are where pods find both Secrets.
	CertsDirectory       = "/etc/kubernetes/pki"
	KeyMaterialDirectory = "/etc/kubernetes/key-material"
)

// Replicated renders a component that runs as a Deployment with leader election and talks to
// kube-apiserver.
func Replicated(asset []byte, in *Input, component string, spec controlplanev1.ReplicatedComponentSpec, port int32, args map[string]string) []client.Object {
	workload := Decode[appsv1.Deployment](asset)
	SetMeta(workload, in, component, names.Object(in.Cluster.Name, component))
	workload.Spec.Replicas = spec.Replicas
	workload.Spec.Selector = Selector(in, component)
	workload.Spec.Strategy = Strategy(in)

	template := &workload.Spec.Template
	container := &template.Spec.Containers[0]
	container.Image = in.Image(component, spec.Image)
	container.Args = Args(container.Args, args, spec.ExtraArgs)
	SetPort(container, "https", port)
	for _, probe := range []*corev1.Probe{container.StartupProbe, container.ReadinessProbe, container.LivenessProbe} {
		Probe(probe, port)
	}
	for i := range template.Spec.Volumes {
		switch volume := &template.Spec.Volumes[i]; volume.Name {
		case "kok-key-material":
			volume.Secret.SecretName = names.KeyMaterial(in.Cluster.Name)
		case "kok-certs":
			volume.Secret.SecretName = names.Certs(in.Cluster.Name, component)
		}
	}
	FinishPod(template, in, component, spec.ComponentSpec)
	SetVersion(template, in)
	SpreadReplicas(&template.Spec, in)
	objects := append([]client.Object{workload}, DisruptionBudget(in, component, *spec.Replicas)...)
	return append(objects, NetworkPolicy(in, component)...)
}

// Strategy is how a Deployment replaces its pods.
func Strategy(in *Input) appsv1.DeploymentStrategy {
	maxSurge, maxUnavailable := in.Rollout()
	return appsv1.DeploymentStrategy{
		Type:          appsv1.RollingUpdateDeploymentStrategyType,
		RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: maxSurge, MaxUnavailable: maxUnavailable},
	}
}
