package components_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	podsecurity "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/kubeapiserver"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/registry"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

func policyIn(objects []client.Object) *networkingv1.NetworkPolicy {
	for _, object := range objects {
		if found, ok := object.(*networkingv1.NetworkPolicy); ok {
			return found
		}
	}
	return nil
}

// Policies do not reach the host network; on the pod network every pod is behind one.
func TestPodsOnThePodNetworkAreBehindAPolicy(t *testing.T) {
	eachRendering(t, func(t *testing.T, in *components.Input, _ components.Component, objects []client.Object) {
		found := policyIn(objects)
		if (found != nil) != in.OnPodNetwork() {
			t.Fatalf("it is %t that there is a policy", found != nil)
		}
		if found == nil {
			return
		}
		if !slices.Equal(found.Spec.PolicyTypes, []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}) || !isSubset(found.Spec.PodSelector.MatchLabels, podIn(t, objects).Labels) {
			t.Errorf("it is about %v of pods with %v", found.Spec.PolicyTypes, found.Spec.PodSelector.MatchLabels)
		}
	})
}

func isSubset(part, whole map[string]string) bool {
	for key, value := range part {
		if whole[key] != value {
			return false
		}
	}
	return len(part) > 0
}

// Who is not named by a rule reaches nothing; only API servers are there for everybody.
func TestWhoMayReachWhat(t *testing.T) {
	in := variants["load-balancer"]()
	for component, want := range map[string][]string{
		names.EtcdData:              {"kube-apiserver, the manager: 2379", "etcd-data: 2379 2380"},
		names.EtcdEvents:            {"kube-apiserver, the manager: 2379", "etcd-events: 2379 2380"},
		names.KubeAPIServer:         {"everybody: 6443 6452"},
		names.KubeControllerManager: nil,
		names.KubeScheduler:         nil,
	} {
		described, _ := registry.Components.Named(component)
		rendered, err := described.Objects(described.Inputs(in))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, rule := range policyIn(rendered).Spec.Ingress {
			got = append(got, describeRule(in, rule))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s lets in %q, want %q", component, got, want)
		}
	}
}

// peer is a pod that connects to another one.
type peer struct {
	labels    map[string]string
	namespace map[string]string
	// beside is whether it is in the tenant's namespace.
	beside bool
}

// opens are the ports that a policy opens to a pod.
func opens(t *testing.T, policy *networkingv1.NetworkPolicy, pod peer) (ports []int32) {
	t.Helper()
	matches := func(wanted *metav1.LabelSelector, has map[string]string) bool {
		selector, err := metav1.LabelSelectorAsSelector(wanted)
		if err != nil {
			t.Fatal(err)
		}
		return selector.Matches(labels.Set(has))
	}
	for _, rule := range policy.Spec.Ingress {
		admitted := len(rule.From) == 0 || slices.ContainsFunc(rule.From, func(from networkingv1.NetworkPolicyPeer) bool {
			// Without a selector of namespaces a peer is in the policy's own, and without one of pods it is every pod there.
			inNamespace := from.NamespaceSelector == nil && pod.beside || from.NamespaceSelector != nil && matches(from.NamespaceSelector, pod.namespace)
			return from.IPBlock == nil && inNamespace && (from.PodSelector == nil || matches(from.PodSelector, pod.labels))
		})
		for _, port := range rule.Ports {
			if admitted {
				ports = append(ports, port.Port.IntVal)
			}
		}
	}
	return ports
}

// A pod gets any label that who makes it wants. A namespace's are those of who administers the host cluster.
func TestFinding11EtcdAdmitsTheManagerFromItsOwnNamespaceAlone(t *testing.T) {
	provider := func(name string) map[string]string { return map[string]string{"cluster.x-k8s.io/provider": name} }
	judged := 0
	eachRendering(t, func(t *testing.T, in *components.Input, component components.Component, objects []client.Object) {
		if !in.OnPodNetwork() || component.Name != names.EtcdData && component.Name != names.EtcdEvents {
			return
		}
		judged++
		manager, apiServer, member := provider("control-plane-kok"), names.ComponentLabels(in.Cluster, names.KubeAPIServer), names.ComponentLabels(in.Cluster, component.Name)
		named := map[string]string{"kubernetes.io/metadata.name": "kok-control-plane-system"}
		for name, test := range map[string]struct {
			pod      peer
			admitted bool
		}{
			"the manager":                 {peer{manager, provider("control-plane-kok"), false}, true},
			"an API server of the tenant": {peer{apiServer, nil, true}, true},
			"a member":                    {peer{member, nil, true}, true},
			"labels of the manager in another namespace":   {peer{manager, named, false}, false},
			"labels of the manager beside another manager": {peer{manager, provider("bootstrap-kok"), false}, false},
			"labels of the manager in the tenant's own":    {peer{manager, nil, true}, false},
			"labels of API servers in another namespace":   {peer{apiServer, nil, false}, false},
			"labels of API servers beside the manager":     {peer{apiServer, provider("control-plane-kok"), false}, false},
			"labels of a member in another namespace":      {peer{member, nil, false}, false},
			"another pod of the tenant's namespace":        {peer{map[string]string{"app": "a"}, nil, true}, false},
		} {
			if ports := opens(t, policyIn(objects), test.pod); len(ports) > 0 != test.admitted {
				t.Errorf("%s reaches %v", name, ports)
			}
		}
	})
	if judged == 0 {
		t.Error("no policy was judged")
	}
}

func describeRule(in *components.Input, rule networkingv1.NetworkPolicyIngressRule) string {
	var peers []string
	for _, peer := range rule.From {
		switch labels := peer.PodSelector.MatchLabels; {
		case peer.NamespaceSelector != nil && labels["cluster.x-k8s.io/provider"] == "control-plane-kok":
			peers = append(peers, "the manager")
		case peer.NamespaceSelector == nil && maps.Equal(labels, names.ComponentLabels(in.Cluster, labels[names.ComponentLabel])):
			peers = append(peers, labels[names.ComponentLabel])
		default:
			peers = append(peers, peer.String())
		}
	}
	if len(peers) == 0 {
		peers = []string{"everybody"}
	}
	text := strings.Join(peers, ", ") + ":"
	for _, port := range rule.Ports {
		text += " " + port.Port.String()
	}
	return text
}

// On the host network a namespace must allow its use; elsewhere the strictest level will do.
func TestPodsOnThePodNetworkMeetTheStandardRestricted(t *testing.T) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	level := podsecurity.LevelVersion{Level: podsecurity.LevelRestricted, Version: podsecurity.LatestVersion()}
	eachRendering(t, func(t *testing.T, in *components.Input, _ components.Component, objects []client.Object) {
		if !in.OnPodNetwork() {
			return
		}
		template := podIn(t, objects)
		if result := policy.AggregateCheckResults(evaluator.EvaluatePod(level, &template.ObjectMeta, &template.Spec)); !result.Allowed {
			t.Error(result.ForbiddenDetail())
		}
	})
}

// To a pod on its own network 127.0.0.1 is another than to kubelet.
func TestKubeletReachesProbesOnThePodNetwork(t *testing.T) {
	eachRendering(t, func(t *testing.T, in *components.Input, _ components.Component, objects []client.Object) {
		for _, container := range containersOf(podIn(t, objects).Spec) {
			for _, probe := range []*corev1.Probe{container.StartupProbe, container.ReadinessProbe, container.LivenessProbe} {
				if in.OnPodNetwork() && probe != nil && probe.HTTPGet.Host != "" {
					t.Errorf("%s is asked at %s", container.Name, probe.HTTPGet.Host)
				}
			}
			if in.OnPodNetwork() && slices.Contains(container.Args, "--health-bind-address=127.0.0.1") {
				t.Errorf("%s answers probes on loopback", container.Name)
			}
		}
	})
	in := variants["node-port"]()
	config, err := etcd.Data.Config(in, etcd.Membership{})
	if err != nil {
		t.Fatal(err)
	}
	if file := config.Data["blue-etcd-data-0.yaml"]; !strings.Contains(file, "listen-metrics-urls: http://0.0.0.0:2381") {
		t.Errorf("etcd answers probes otherwise:\n%s", file)
	}
}

// Host ports keep pods of a component apart on the host network; elsewhere the scheduler must be told.
func TestPodsAreKeptApartOnThePodNetwork(t *testing.T) {
	eachRendering(t, func(t *testing.T, in *components.Input, _ components.Component, objects []client.Object) {
		if !in.OnPodNetwork() {
			return
		}
		for _, object := range objects {
			switch workload := object.(type) {
			case *appsv1.StatefulSet:
				terms := workload.Spec.Template.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
				if len(terms) != 1 || terms[0].TopologyKey != corev1.LabelHostname || !isSubset(terms[0].LabelSelector.MatchLabels, workload.Spec.Template.Labels) {
					t.Errorf("members are kept apart by %v", terms)
				}
			case *appsv1.Deployment:
				if !slices.ContainsFunc(workload.Spec.Template.Spec.TopologySpreadConstraints, func(c corev1.TopologySpreadConstraint) bool {
					return c.TopologyKey == corev1.LabelHostname && c.WhenUnsatisfiable == corev1.DoNotSchedule
				}) {
					t.Error("two replicas may share a host although another has none")
				}
			}
		}
	})
}

// What API servers advertise is what default/kubernetes of the tenant tells workers: it must be true.
func TestAPIServersAdvertiseWhereTheyAreReached(t *testing.T) {
	for variant, want := range map[string]struct {
		service   corev1.ServiceType
		policy    corev1.ServiceExternalTrafficPolicy
		advertise string
		listen    string
	}{
		"default":       {corev1.ServiceTypeClusterIP, "", "$(HOST_IP)", "20000"},
		"deployment":    {corev1.ServiceTypeClusterIP, "", "$(HOST_IP)", "20000"},
		"load-balancer": {corev1.ServiceTypeLoadBalancer, "", "192.0.2.80", "6443"},
		"node-port":     {corev1.ServiceTypeNodePort, corev1.ServiceExternalTrafficPolicyLocal, "$(HOST_IP)", "31234"},
		"not-exposed":   {corev1.ServiceTypeClusterIP, "", "10.250.0.17", "6443"},
	} {
		in := variants[variant]()
		rendered, err := kubeapiserver.Component.Rendered(in)
		if err != nil {
			t.Fatal(err)
		}
		args := podIn(t, rendered).Spec.Containers[0].Args
		if !slices.Contains(args, "--advertise-address="+want.advertise) || !slices.Contains(args, "--secure-port="+want.listen) {
			t.Errorf("%s: %v", variant, args)
		}
		// One that stops takes its address out of the tenant, which must not be that of all.
		if shared := want.advertise != "$(HOST_IP)"; slices.Contains(args, "--endpoint-reconciler-type=none") != shared {
			t.Errorf("%s: %v", variant, args)
		}
		services, err := kubeapiserver.Component.Services(in)
		if err != nil {
			t.Fatal(err)
		}
		if got := services[0].Spec; got.Type != want.service || got.ExternalTrafficPolicy != want.policy || got.Ports[0].Port != 6443 {
			t.Errorf("%s: the Service is %+v", variant, got)
		}
	}
}

func TestWhatTheHostClusterGave(t *testing.T) {
	ingress := func(list ...corev1.LoadBalancerIngress) *corev1.Service {
		return &corev1.Service{
			Spec:   corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 6443, NodePort: 30001}}, ClusterIP: "10.250.0.17"},
			Status: corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: list}},
		}
	}
	for name, test := range map[string]struct {
		exposure controlplanev1.ExposureType
		service  *corev1.Service
		want     components.Exposure
		waiting  string
	}{
		"an address":                 {controlplanev1.ExposureLoadBalancer, ingress(corev1.LoadBalancerIngress{IP: "192.0.2.80"}), components.Exposure{Address: "192.0.2.80", Port: 6443}, ""},
		"several addresses":          {controlplanev1.ExposureLoadBalancer, ingress(corev1.LoadBalancerIngress{IP: "192.0.2.80"}, corev1.LoadBalancerIngress{IP: "192.0.2.81"}), components.Exposure{Address: "192.0.2.80", Port: 6443}, ""},
		"a name and then an address": {controlplanev1.ExposureLoadBalancer, ingress(corev1.LoadBalancerIngress{Hostname: "a.example"}, corev1.LoadBalancerIngress{IP: "192.0.2.80"}), components.Exposure{Address: "192.0.2.80", Port: 6443}, ""},
		"no address yet":             {controlplanev1.ExposureLoadBalancer, ingress(), components.Exposure{Port: 6443}, "has no address yet"},
		"a name alone":               {controlplanev1.ExposureLoadBalancer, ingress(corev1.LoadBalancerIngress{Hostname: "a.example"}), components.Exposure{Port: 6443}, "has only a name, a.example,"},
		"a node port":                {controlplanev1.ExposureNodePort, ingress(), components.Exposure{Port: 30001}, ""},
		"nothing but a cluster IP":   {controlplanev1.ExposureNone, ingress(), components.Exposure{Address: "10.250.0.17", Port: 6443}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			in := exposed(onPodNetwork(test.exposure), components.Exposure{})
			got, waiting := kubeapiserver.Exposed(in, test.service, components.Exposure{})
			if got != test.want || (waiting == "") != (test.waiting == "") || !strings.Contains(waiting, test.waiting) {
				t.Errorf("got %+v, %q", got, waiting)
			}
		})
	}
}

func TestANodePortIsAskedForAgain(t *testing.T) {
	spec := onPodNetwork(controlplanev1.ExposureNodePort)
	for name, test := range map[string]struct {
		pinned int32
		before components.Exposure
		want   int32
	}{
		"the host cluster chooses the first": {0, components.Exposure{}, 0},
		"the one of before":                  {0, components.Exposure{Port: 31234}, 31234},
		"one that is pinned":                 {30500, components.Exposure{}, 30500},
	} {
		t.Run(name, func(t *testing.T) {
			spec.Hosting.Exposure.NodePort = test.pinned
			services, err := kubeapiserver.Component.Services(exposed(spec, test.before))
			if err != nil || services[0].Spec.Ports[0].NodePort != test.want {
				t.Errorf("got %v, %v", services[0].Spec.Ports, err)
			}
		})
	}
}
