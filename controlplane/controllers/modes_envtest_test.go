//go:build envtest

package controllers

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/yaml"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/configuration"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/loadbalancer"
)

// onPodNetwork makes a control plane one of each on the pod network.
func onPodNetwork(exposure controlplanev1.ExposureType, workload controlplanev1.APIServerWorkload) func(*controlplanev1.KOKControlPlane) {
	return func(c *controlplanev1.KOKControlPlane) {
		single(c)
		c.Spec.Hosting.NetworkMode, c.Spec.Hosting.Exposure.Type = controlplanev1.NetworkModePod, exposure
		asWorkload(workload)(c)
	}
}

// asWorkload sets what the webhook sets too.
func asWorkload(workload controlplanev1.APIServerWorkload) func(*controlplanev1.KOKControlPlane) {
	return func(c *controlplanev1.KOKControlPlane) {
		c.Spec.KubeAPIServer.Workload = workload
		if c.Spec.KubeAPIServer.IsDeployment() {
			c.Spec.Replicas = ptr.To(controlplanev1.DefaultAPIServerReplicas)
		}
	}
}

// modes are all combinations that there are, but for the default.
var modes = map[string]struct {
	edit func(*controlplanev1.KOKControlPlane)
	// claims of port blocks, API servers, and policies that there are.
	claims, apiServers, policies int
	// seeds are where workers look for API servers, of a tenant that is settled.
	seeds func(tt *tenantTest) []string
}{
	"a Deployment on the host network": {
		edit:   func(c *controlplanev1.KOKControlPlane) { single(c); asWorkload(controlplanev1.APIServerDeployment)(c) },
		claims: 1, apiServers: 2,
		seeds: func(tt *tenantTest) []string { return atHosts(2, tt.controlPlane().Spec.Hosting.Ports.First) },
	},
	"a Deployment behind a load balancer": {
		edit:       onPodNetwork(controlplanev1.ExposureLoadBalancer, controlplanev1.APIServerDeployment),
		apiServers: 2, policies: 5,
		seeds: func(tt *tenantTest) []string { return []string{tt.host.balanced + ":6443"} },
	},
	"a DaemonSet behind a load balancer": {
		edit:       onPodNetwork(controlplanev1.ExposureLoadBalancer, ""),
		apiServers: 3, policies: 5,
		seeds: func(tt *tenantTest) []string { return []string{tt.host.balanced + ":6443"} },
	},
	"a Deployment at a node port": {
		edit:       onPodNetwork(controlplanev1.ExposureNodePort, controlplanev1.APIServerDeployment),
		apiServers: 2, policies: 5,
		seeds: func(tt *tenantTest) []string { return atHosts(2, tt.apiServerService().Spec.Ports[0].NodePort) },
	},
	"a DaemonSet at a node port": {
		edit:       onPodNetwork(controlplanev1.ExposureNodePort, controlplanev1.APIServerDaemonSet),
		apiServers: 3, policies: 5,
		seeds: func(tt *tenantTest) []string { return atHosts(3, tt.apiServerService().Spec.Ports[0].NodePort) },
	},
	"a Deployment that is not exposed": {
		edit:       onPodNetwork(controlplanev1.ExposureNone, controlplanev1.APIServerDeployment),
		apiServers: 2, policies: 5,
		seeds: func(tt *tenantTest) []string { return []string{tt.apiServerService().Spec.ClusterIP + ":6443"} },
	},
	"a DaemonSet that is not exposed": {
		edit:       onPodNetwork(controlplanev1.ExposureNone, ""),
		apiServers: 3, policies: 5,
		seeds: func(tt *tenantTest) []string { return []string{tt.apiServerService().Spec.ClusterIP + ":6443"} },
	},
}

func atHosts(hosts int, port int32) []string {
	var addresses []string
	for i := range hosts {
		addresses = append(addresses, net.JoinHostPort(fmt.Sprintf("192.0.2.%d", i+1), strconv.Itoa(int(port))))
	}
	return addresses
}

func (tt *tenantTest) apiServerService() *corev1.Service {
	tt.t.Helper()
	service := &corev1.Service{}
	if err := environment.Client.Get(tt.t.Context(), tt.inNamespace("blue-kube-apiserver"), service); err != nil {
		tt.t.Fatal(err)
	}
	return service
}

func (tt *tenantTest) seeds() []string {
	tt.t.Helper()
	secret := &corev1.Secret{}
	if err := environment.Client.Get(tt.t.Context(), tt.inNamespace("blue-apiserver-lb"), secret); err != nil {
		tt.t.Fatal(err)
	}
	// The addresses of Services here are loopback's, which configuration.Parse refuses.
	var config configuration.Configuration
	if err := yaml.Unmarshal(secret.Data[loadbalancer.Key], &config); err != nil {
		tt.t.Fatal(err)
	}
	return config.SeedBackends
}

// endpoint is where the controller leads the tenant's Service kubernetes; empty when it leaves that to API servers.
func (h *hostCluster) endpoint(t *testing.T) string {
	t.Helper()
	h.endpointsLock.Lock()
	defer h.endpointsLock.Unlock()
	if h.endpoints == nil {
		return ""
	}
	slice := &discoveryv1.EndpointSlice{}
	if err := yaml.Unmarshal(h.endpoints, slice); err != nil {
		t.Fatal(err)
	}
	return net.JoinHostPort(slice.Endpoints[0].Addresses[0], strconv.Itoa(int(*slice.Ports[0].Port)))
}

func (tt *tenantTest) count(kind string) int {
	tt.t.Helper()
	return len(slices.DeleteFunc(kindsAndNames(tt.objects()), func(name string) bool { return !strings.HasPrefix(name, kind+" ") }))
}

// In every mode a control plane is made, costs nothing once it is, comes back as it was, and leaves nothing.
func TestTheLifeOfAControlPlaneInEveryMode(t *testing.T) {
	t.Parallel()
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt := newTenantTest(t, mode.edit)
			tt.settle()
			controlPlane := tt.controlPlane()
			if !conditions.IsTrue(controlPlane, conditionsv1.AvailableCondition) || !conditions.IsTrue(controlPlane, conditionsv1.ControlPlaneComponentsHealthyCondition) ||
				int(ptr.Deref(controlPlane.Status.ReadyReplicas, 0)) != mode.apiServers {
				t.Fatalf("it is not as it should be: %+v", controlPlane.Status)
			}
			if claims, policies := tt.claims(), tt.count("NetworkPolicy"); claims != mode.claims || policies != mode.policies {
				t.Errorf("there are %d claims of ports and %d policies", claims, policies)
			}
			if got, want := tt.seeds(), mode.seeds(tt); !slices.Equal(got, want) {
				t.Errorf("workers look at %v, want %v", got, want)
			}

			// Each API server writes its own address, but not one that all share.
			wanted := ""
			if shared := mode.seeds(tt); len(shared) == 1 {
				wanted = shared[0]
			}
			if got := tt.host.endpoint(t); got != wanted {
				t.Errorf("the tenant's Service kubernetes was given %q, want %q", got, wanted)
			}

			tt.program = newProgram(t, &gate{})
			if err := tt.reconcile(); err != nil {
				t.Fatal(err)
			}
			if writes := tt.program.gate.takeWrites(); len(writes) > 0 {
				t.Errorf("once it is settled, a new program writes %v", writes)
			}

			before, service := kindsAndNames(tt.objects()), tt.apiServerService()
			for _, object := range tt.objects() {
				switch object.GetObjectKind().GroupVersionKind().Kind {
				case "Service", "NetworkPolicy", "Deployment", "DaemonSet", "PodDisruptionBudget":
					tt.delete(object)
				}
			}
			tt.settle()
			if after := kindsAndNames(tt.objects()); !slices.Equal(before, after) {
				t.Errorf("there were %v, and there came back %v", before, after)
			}
			if again := tt.apiServerService(); again.Spec.ClusterIP != service.Spec.ClusterIP || again.Spec.Ports[0].NodePort != service.Spec.Ports[0].NodePort && again.Spec.Type == corev1.ServiceTypeNodePort {
				t.Errorf("the Service was %+v and is %+v", service.Spec, again.Spec)
			}

			tt.delete(tt.controlPlane())
			tt.gone()
		})
	}
}

// Nothing is made before it is known where API servers are reached: certificates and kubeconfigs name it.
func TestALoadBalancerIsWaitedFor(t *testing.T) {
	t.Parallel()
	tt := newTenantTest(t, onPodNetwork(controlplanev1.ExposureLoadBalancer, controlplanev1.APIServerDeployment))
	address := tt.host.balanced
	tt.host.balanced = ""
	tt.settle()
	for _, condition := range []string{conditionsv1.AvailableCondition, conditionsv1.ReconciledCondition} {
		if got := conditions.Get(tt.controlPlane(), condition); got == nil || !strings.Contains(got.Message, "Service blue-kube-apiserver of type LoadBalancer has no address yet") {
			t.Errorf("%s says %v", condition, got)
		}
	}
	if made := tt.workloads(); len(made) > 0 || tt.controlPlane().Spec.ControlPlaneEndpoint.Host != "" {
		t.Errorf("there are %v", made)
	}

	tt.host.balanced = address
	tt.settle()
	if endpoint := tt.controlPlane().Spec.ControlPlaneEndpoint; endpoint != (controlplanev1.APIEndpoint{Host: address, Port: 6443}) {
		t.Errorf("the endpoint is %v", endpoint)
	}

	t.Run("one that is away changes nothing", func(t *testing.T) {
		tt.host.balanced = ""
		tt.settle()
		tt.stillAdvertises(address)
		if !conditions.IsTrue(tt.controlPlane(), conditionsv1.ReconciledCondition) {
			t.Error("it is not reconciled")
		}
	})
	t.Run("another address is said and not taken", func(t *testing.T) {
		tt.host.balanced = newLoopback()
		tt.settle()
		tt.stillAdvertises(address)
		want := fmt.Sprintf("is reached at port 6443 of %s now, but certificates, kubeconfigs and workers name port 6443 of %s", tt.host.balanced, address)
		if got := conditions.Get(tt.controlPlane(), conditionsv1.ReconciledCondition); !strings.Contains(got.Message, want) {
			t.Errorf("it says %v", got)
		}
	})
}

func (tt *tenantTest) stillAdvertises(address string) {
	tt.t.Helper()
	deployment := &appsv1.Deployment{}
	if err := environment.Client.Get(tt.t.Context(), tt.inNamespace("blue-kube-apiserver"), deployment); err != nil {
		tt.t.Fatal(err)
	}
	if args := deployment.Spec.Template.Spec.Containers[0].Args; !slices.Contains(args, "--advertise-address="+address) {
		tt.t.Errorf("API servers have %v", args)
	}
}

// An autoscaler changes the number often: it must never bring more than that along.
func TestAPIServersOfADeploymentAreScaled(t *testing.T) {
	t.Parallel()
	tt := newTenantTest(t, onPodNetwork(controlplanev1.ExposureNone, controlplanev1.APIServerDeployment))
	tt.settle()
	for _, replicas := range []int32{4, 1} {
		edit(t, tt.key, &controlplanev1.KOKControlPlane{}, func(c *controlplanev1.KOKControlPlane) { c.Spec.Replicas = ptr.To(replicas) })
		tt.settle()
		status := tt.controlPlane().Status
		if *status.Replicas != replicas || *status.DesiredReplicas != replicas || *status.ReadyReplicas != replicas {
			t.Errorf("of %d replicas status says %+v", replicas, status)
		}
		if revisions := slices.DeleteFunc(kindsAndNames(tt.objects()), func(name string) bool {
			return !strings.HasPrefix(name, "ControllerRevision blue-kube-apiserver-")
		}); len(revisions) != 1 {
			t.Errorf("there are %v", revisions)
		}
	}
}

// Through another node's kube-proxy a worker would reach another API server than it asked for. The type stays
// as it is: an API server may lose a node port to itself for minutes when it is given back and asked for at once
// (its repair loop and its Services are no transaction); that the same port is asked for is in the golden files.
func TestTheServiceOfNodePortsComesBack(t *testing.T) {
	t.Parallel()
	tt := newTenantTest(t, onPodNetwork(controlplanev1.ExposureNodePort, ""))
	tt.settle()
	service := tt.apiServerService()
	edit(t, tt.inNamespace(service.Name), &corev1.Service{}, func(s *corev1.Service) {
		s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyCluster
	})
	tt.settle()
	if got := tt.apiServerService().Spec; got.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyLocal || got.Ports[0].NodePort != service.Spec.Ports[0].NodePort {
		t.Errorf("it is %+v, and was %+v", got, service.Spec)
	}
}
