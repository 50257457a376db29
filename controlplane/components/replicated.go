package components

import (
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/arguments"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/certificates"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/patches"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/ports"
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

// Replicated describes a program of Kubernetes that runs as a Deployment with leader election and talks to kube-apiserver.
type Replicated struct {
	Name string
	// Field is the component's field in spec, and Spec the value of that.
	Field string
	Spec  func(spec *controlplanev1.KOKControlPlaneSpec) *controlplanev1.ReplicatedComponentSpec
	// Port is where it serves HTTPS.
	Port ports.Port
	// Asset is its Deployment as YAML, and Args, if there, are arguments that depend on the tenant.
	Asset []byte
	Args  func(in *Input) map[string]string
	// Arguments are what users may say in extraArgs.
	Arguments arguments.Rules
	// ClusterCA are arguments that name files of the cluster CA beside those that all such programs have, and Keys the keys that it has beside
	// that CA and the front proxy CA.
	ClusterCA []KeyArgument
	Keys      HeldKeys
	// Network, if there, is the part of the tenant's network that Args name.
	Network func(network Network) Network
}

// Component makes the description of the component.
func (r Replicated) Component() Component {
	return Component{
		Name:       r.Name,
		After:      []string{names.KubeAPIServer},
		Condition:  conditionsv1.ControlPlaneComponentsHealthyCondition,
		Kubernetes: true,
		Keys:       r.keys(),
		Settings: &Settings{
			Field: r.Field,
			Spec: func(spec *controlplanev1.KOKControlPlaneSpec) *controlplanev1.ComponentSpec {
				return &r.Spec(spec).ComponentSpec
			},
			Replicas:  func(spec *controlplanev1.KOKControlPlaneSpec) **int32 { return &r.Spec(spec).Replicas },
			Arguments: r.Arguments,
		},
		Patches: patches.Hosted{
			Workloads: []string{"Deployment"}, Containers: []string{r.Name},
			Replicas: "set spec." + r.Field + ".replicas", Image: "set spec." + r.Field + ".image", Args: "set spec." + r.Field + ".extraArgs",
		},
		Workload: func(*controlplanev1.KOKControlPlaneSpec) client.Object { return &appsv1.Deployment{} },
		OwnHosts: func(in *Input) (string, int32) {
			return "spec." + r.Field + ".replicas", ptr.Deref(r.Spec(&in.Spec).Replicas, 0)
		},
		Ports:        []ports.Port{r.Port},
		Certificates: r.certificates,
		ClearUnused:  r.clearUnused,
		Objects:      r.objects,
	}
}

// keys are those that rotate and that its pods have. Its kubeconfig names a leaf, too.
func (r Replicated) keys() HeldKeys {
	return append(slices.Clone(r.Keys),
		HeldKey{
			Kind: ClusterCA, Trusts: true, Uses: true, Shows: true, Further: clientLeaf,
			Arguments: slices.Concat([]KeyArgument{ClientCAs}, r.ClusterCA, kubeconfigs, ServingLeaf),
		},
		HeldKey{Kind: FrontProxyCA, Trusts: true, Arguments: []KeyArgument{FrontProxyTrust}},
	)
}

// kubeconfigs lead to API servers.
var kubeconfigs = []KeyArgument{
	{Name: "authentication-kubeconfig", Files: kubeconfigFile, OfComponent: true},
	{Name: "authorization-kubeconfig", Files: kubeconfigFile, OfComponent: true},
	{Name: "kubeconfig", Files: kubeconfigFile, OfComponent: true},
}

func kubeconfigFile(in *Input) []string { return []string{KubeconfigOf(in.ClusterCAs)} }

// KubeconfigOf is the name of the kubeconfig that trusts the CAs, and shows the leaf by the one that is in use.
func KubeconfigOf(cas KeyFiles) string {
	return pki.TrustedFileOfBoth(KubeconfigFile, cas.Trusted, []string{cas.Used})
}

// clientLeaf are the files of the leaf that kubeconfigs name, where a rotation made it.
func clientLeaf(in *Input) []string {
	if in.ClusterCAs.Used == "" {
		return nil
	}
	leaf := certificates.LeafName(ClientCert, in.ClusterCAs.Used)
	return []string{leaf + ".crt", leaf + ".key"}
}

func (r Replicated) clearUnused(in *Input) {
	network := Network{}
	if r.Network != nil {
		network = r.Network(in.Network)
	}
	in.Addresses, in.Network, in.Exposure = nil, network, Exposure{}
	own := controlplanev1.KOKControlPlaneSpec{
		Hosting:         in.Spec.Hosting,
		ImageRepository: in.Spec.ImageRepository,
		ImagePullSecret: in.Spec.ImagePullSecret,
	}
	r.keys().Reduce(in)
	*r.Spec(&own) = *r.Spec(&in.Spec)
	own.Metrics = in.Spec.Metrics
	in.Spec = own
}

func (r Replicated) objects(in *Input) ([]client.Object, error) {
	spec, port := *r.Spec(&in.Spec), in.Ports.Number(r.Port)
	workload := Decode[appsv1.Deployment](r.Asset)
	SetMeta(workload, in, r.Name, names.Object(in.Cluster.Name, r.Name))
	workload.Spec.Replicas = spec.Replicas
	workload.Spec.Selector = Selector(in, r.Name)
	workload.Spec.Strategy = Strategy(in)

	args := map[string]string{}
	if r.Args != nil {
		args = r.Args(in)
	}
	args["secure-port"] = strconv.Itoa(int(port))
	template := &workload.Spec.Template
	container := &template.Spec.Containers[0]
	container.Image = in.Image(r.Name, spec.Image)
	container.Args = Args(container.Args, args, spec.ExtraArgs)
	r.keys().Set(template, in, r.Name)
	SetPort(container, r.Port.Name, port)
	for _, probe := range []*corev1.Probe{container.StartupProbe, container.ReadinessProbe, container.LivenessProbe} {
		Probe(probe, port)
	}
	for i := range template.Spec.Volumes {
		switch volume := &template.Spec.Volumes[i]; volume.Name {
		case keyMaterialVolume:
			volume.Secret.SecretName = names.KeyMaterial(in.Cluster.Name)
		case certsVolume:
			volume.Secret.SecretName = names.Certs(in.Cluster.Name, r.Name)
		}
	}
	FinishPod(template, in, r.Name, spec.ComponentSpec)
	SetVersion(template, in)
	SpreadReplicas(&template.Spec, in)
	objects := append([]client.Object{workload}, DisruptionBudget(in, r.Name, *spec.Replicas)...)
	return append(objects, NetworkPolicy(in, r.Name, r.metricsReaders(in)...)...), nil
}

// metricsReaders lets pods in that have the label of those who read metrics, where spec.metrics has a certificate for them. Users may
// give their pods that label; without the certificate they learn no more than the health.
func (r Replicated) metricsReaders(in *Input) []networkingv1.NetworkPolicyIngressRule {
	if in.Spec.Metrics.Mode != controlplanev1.MetricsManaged {
		return nil
	}
	readers := networkingv1.NetworkPolicyPeer{
		NamespaceSelector: &metav1.LabelSelector{}, PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{names.MetricsReaderLabel: "true"}},
	}
	return []networkingv1.NetworkPolicyIngressRule{Admit([]networkingv1.NetworkPolicyPeer{readers}, in.Ports.Number(r.Port))}
}

// certificates are one to serve with, and one to dial kube-apiserver with as the user "system:<component>", to which
// Kubernetes or controlplane/tenant/rbac.go binds the component's role.
func (r Replicated) certificates(in *Input, of Issuance) (Certificates, error) {
	user := "system:" + r.Name
	kubeconfigs := map[string][]byte{}
	for _, files := range of.Keys.AllFiles(string(pki.ClusterCA)) {
		cas := KeyFiles(files)
		kubeconfig, err := certificates.ComponentKubeconfig(certificates.KubeconfigFile{
			Server:   "https://" + in.APIServerAddress(),
			User:     user,
			CAFile:   KeyMaterialDirectory + "/" + pki.TrustedFile(pki.CACert, cas.Trusted...),
			CertFile: directoryOf(cas.Used) + "/" + certificates.LeafName(ClientCert, cas.Used) + ".crt",
			KeyFile:  directoryOf(cas.Used) + "/" + certificates.LeafName(ClientCert, cas.Used) + ".key",
		})
		if err != nil {
			return Certificates{}, err
		}
		kubeconfigs[KubeconfigOf(cas)] = kubeconfig
	}
	return Certificates{
		Leaves: slices.Concat(certificates.ByShowing(of.Keys, certificates.Leaf{
			Name: ServerCert, Signer: pki.ClusterCA, CommonName: r.Name, Usages: Serving,
			DNSNames: []string{"localhost", r.Name}, IPs: IPs("127.0.0.1", "::1"),
		}), certificates.BySigning(of.Keys, certificates.Leaf{
			Name: ClientCert, Signer: pki.ClusterCA, CommonName: user, Usages: Dialing,
		})),
		Files: kubeconfigs,
	}, nil
}

// directoryOf is where pods find files of the component's Secret, by the key in their names.
func directoryOf(key string) string {
	if key == "" {
		return CertsDirectory
	}
	return RotatedCertsDirectory
}

// Strategy is how a Deployment replaces its pods.
func Strategy(in *Input) appsv1.DeploymentStrategy {
	maxSurge, maxUnavailable := in.Rollout()
	return appsv1.DeploymentStrategy{
		Type:          appsv1.RollingUpdateDeploymentStrategyType,
		RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: maxSurge, MaxUnavailable: maxUnavailable},
	}
}
