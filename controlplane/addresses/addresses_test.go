package addresses

import (
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/ports"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/revision"
)

var blue = client.ObjectKey{Namespace: "team", Name: "blue"}

func service(name, address string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name}, Spec: corev1.ServiceSpec{ClusterIP: address}}
}

func TestWhatWasGivenOnceIsKept(t *testing.T) {
	host := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).Build()
	revisions := &revision.Store{Client: host, Live: host, Version: "v1.36.3"}
	if record, err := Read(t.Context(), revisions, blue); err != nil || len(record.Services) != 0 || record.Exposure != (components.Exposure{}) {
		t.Errorf("before anything was given it is %+v: %v", record, err)
	}
	given := Record{
		Services: map[string]string{"blue-kube-apiserver": "10.0.0.1", "blue-etcd-data-0": "10.0.0.2"}, Exposure: components.Exposure{Address: "192.0.2.7", Port: 6443},
	}
	for range 2 {
		if err := given.Write(t.Context(), revisions, blue); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Read(t.Context(), revisions, blue)
	if err != nil || got.Exposure != given.Exposure || !maps.Equal(got.Services, given.Services) {
		t.Errorf("it is %+v: %v", got, err)
	}
}

func TestAnotherAddressIsForAPerson(t *testing.T) {
	recorded := map[string]string{"a": "10.0.0.1", "b": "10.0.0.2", "gone": "10.0.0.3"}
	present := map[string]*corev1.Service{"a": service("a", "10.0.0.1"), "b": service("b", "10.0.0.9"), "new": service("new", "10.0.0.4")}
	misplaced, problem := Misplaced(recorded, present)
	if !maps.Equal(misplaced, map[string]bool{"b": true}) || problem == nil || !strings.HasPrefix(problem.Error(), "address 10.0.0.9 of Service team/b is not 10.0.0.2") {
		t.Errorf("they are %v: %v", misplaced, problem)
	}
	if misplaced, problem := Misplaced(nil, present); len(misplaced) != 0 || problem != nil {
		t.Errorf("without a record they are %v: %v", misplaced, problem)
	}
}

// A patch that is refused, and an address that somebody else chose, are for a person. All else goes on.
func TestWhichServicesAreApplied(t *testing.T) {
	in := components.Input{Cluster: blue, Network: components.Network{ServiceCIDRs: []string{"10.96.0.0/16"}, APIServerPort: 6443}, Ports: ports.Of(20000)}
	in.Spec.Etcd.Data.Replicas, in.Spec.Etcd.Events.Replicas = ptr.To[int32](1), ptr.To[int32](1)
	refused := *in.Spec.DeepCopy()
	refused.Patches = []controlplanev1.Patch{{
		Target: controlplanev1.PatchTarget{Component: names.EtcdData, Kind: "Service"}, Type: controlplanev1.PatchStrategicMerge, Patch: `metadata: {name: other}`,
	}}
	const data, events, api = "blue-etcd-data-0", "blue-etcd-events-0", "blue-kube-apiserver"
	recorded := Record{Services: map[string]string{data: "10.0.0.1", events: "10.0.0.2"}}
	for name, test := range map[string]struct {
		spec      controlplanev1.KOKControlPlaneSpec
		present   map[string]*corev1.Service
		misplaced map[string]bool
		applied   map[string]string
		known     map[string]string
	}{
		"all are asked for what is recorded": {spec: in.Spec, applied: map[string]string{data: "10.0.0.1", events: "10.0.0.2", api: ""}, known: map[string]string{}},
		"one has another address": {
			spec: in.Spec, misplaced: map[string]bool{events: true},
			applied: map[string]string{data: "10.0.0.1", api: ""}, known: map[string]string{events: "10.0.0.2"},
		},
		"one that a refused patch is for stays": {
			spec: refused, present: map[string]*corev1.Service{data: service(data, "10.0.0.1")},
			applied: map[string]string{events: "10.0.0.2", api: ""}, known: map[string]string{data: "10.0.0.1"},
		},
		"one that a refused patch is for comes back": {spec: refused, applied: map[string]string{data: "10.0.0.1", events: "10.0.0.2", api: ""}, known: map[string]string{}},
	} {
		t.Run(name, func(t *testing.T) {
			in := in
			in.Spec = test.spec
			plan, err := Decide(in, recorded, test.present, test.misplaced)
			if err != nil {
				t.Fatal(err)
			}
			applied := map[string]string{}
			for _, object := range plan.Apply {
				applied[object.GetName()] = object.(*corev1.Service).Spec.ClusterIP
			}
			if !maps.Equal(applied, test.applied) || !maps.Equal(plan.Known, test.known) {
				t.Errorf("it applies %v, and knows %v", applied, plan.Known)
			}
		})
	}
}

func TestWhereAPIServersAreExposedIsKept(t *testing.T) {
	in := &components.Input{}
	in.Spec.Hosting.NetworkMode, in.Spec.Hosting.Exposure.Type = controlplanev1.NetworkModePod, controlplanev1.ExposureLoadBalancer
	balanced := func(addresses ...string) *corev1.Service {
		s := service("blue-kube-apiserver", "10.0.0.1")
		s.Spec.Ports = []corev1.ServicePort{{Port: 6443}}
		for _, address := range addresses {
			s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: address})
		}
		return s
	}
	seven := components.Exposure{Address: "192.0.2.7", Port: 6443}
	for name, test := range map[string]struct {
		service          *corev1.Service
		recorded, want   components.Exposure
		waiting, problem bool
	}{
		"nothing was given yet":               {service: balanced(), want: components.Exposure{Port: 6443}, waiting: true},
		"an address was given":                {service: balanced("192.0.2.7"), want: seven},
		"several were given":                  {service: balanced("192.0.2.7", "192.0.2.8"), want: seven},
		"it is the one of the record":         {service: balanced("192.0.2.7"), recorded: seven, want: seven},
		"it is after a new one":               {service: balanced("192.0.2.6", "192.0.2.7"), recorded: seven, want: seven},
		"another one than the recorded one":   {service: balanced("192.0.2.8"), recorded: seven, want: seven, problem: true},
		"several without the recorded one":    {service: balanced("192.0.2.6", "192.0.2.8"), recorded: seven, want: seven, problem: true},
		"the Service is made again and waits": {service: balanced(), recorded: seven, want: seven},
	} {
		t.Run(name, func(t *testing.T) {
			exposed, waiting, problem := Exposed(in, test.service, test.recorded)
			if exposed != test.want || (waiting != "") != test.waiting || (problem != nil) != test.problem {
				t.Errorf("it is %+v, waits for %q, and says %v", exposed, waiting, problem)
			}
		})
	}
}

func TestThereIsOneEndpoint(t *testing.T) {
	a, b := controlplanev1.APIEndpoint{Host: "a.example", Port: 443}, controlplanev1.APIEndpoint{Host: "2001:db8::1", Port: 6443}
	for name, test := range map[string]struct {
		own, given, want controlplanev1.APIEndpoint
		says             string
	}{
		"that of the Service":        {want: controlplanev1.APIEndpoint{Host: "10.0.0.1", Port: 6443}},
		"the control plane names it": {own: a, want: a},
		"the Cluster names it":       {given: a, want: a},
		"both name the same":         {own: a, given: a, want: a},
		"both name another":          {own: b, given: a, want: b, says: "spec.controlPlaneEndpoint is [2001:db8::1]:6443, but the Cluster's is a.example:443"},
	} {
		t.Run(name, func(t *testing.T) {
			cluster, controlPlane := &clusterv1.Cluster{}, &controlplanev1.KOKControlPlane{}
			cluster.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: test.given.Host, Port: test.given.Port}
			controlPlane.Spec.ControlPlaneEndpoint = test.own
			if got := Endpoint(cluster, controlPlane, controlplanev1.APIEndpoint{Host: "10.0.0.1", Port: 6443}); got != test.want {
				t.Errorf("it is %+v", got)
			}
			err := ValidateEndpoint(cluster, controlPlane)
			if (err != nil) != (test.says != "") || err != nil && !strings.HasPrefix(err.Error(), test.says) {
				t.Errorf("it says %v", err)
			}
		})
	}
}

func TestAPIServersOnThePodNetworkListenWithoutPrivileges(t *testing.T) {
	for port, want := range map[int32]bool{443: false, minListener - 1: false, minListener: true, maxListener: true, maxListener + 1: false} {
		in := &components.Input{Network: components.Network{APIServerPort: port}}
		if err := ValidateListener(in); err != nil {
			t.Errorf("on the host network port %d is refused: %v", port, err)
		}
		in.Spec.Hosting.NetworkMode = controlplanev1.NetworkModePod
		if err := ValidateListener(in); (err == nil) != want {
			t.Errorf("port %d: %v", port, err)
		}
	}
}

func TestAControlPlaneElsewhereNeedsAnEndpointThatIsReached(t *testing.T) {
	for name, test := range map[string]struct {
		edit func(*clusterv1.Cluster, *controlplanev1.KOKControlPlane)
		says string
	}{
		"its own is enough": {edit: func(_ *clusterv1.Cluster, c *controlplanev1.KOKControlPlane) {
			c.Spec.ControlPlaneEndpoint = controlplanev1.APIEndpoint{Host: "blue.example", Port: 6443}
		}},
		"its Cluster's is enough": {edit: func(cluster *clusterv1.Cluster, _ *controlplanev1.KOKControlPlane) {
			cluster.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "blue.example", Port: 6443}
		}},
		"a load balancer is enough": {edit: func(_ *clusterv1.Cluster, c *controlplanev1.KOKControlPlane) {
			c.Spec.Hosting.Exposure.Type = controlplanev1.ExposureLoadBalancer
		}},
		"a node port has no address of its own": {edit: func(_ *clusterv1.Cluster, c *controlplanev1.KOKControlPlane) {
			c.Spec.Hosting.Exposure.Type = controlplanev1.ExposureNodePort
		}, says: "spec.controlPlaneEndpoint"},
		"a cluster IP leads nowhere": {edit: func(*clusterv1.Cluster, *controlplanev1.KOKControlPlane) {}, says: "spec.controlPlaneEndpoint"},
		"it is not its own host": {edit: func(_ *clusterv1.Cluster, c *controlplanev1.KOKControlPlane) {
			c.Spec.ControlPlaneEndpoint = controlplanev1.APIEndpoint{Host: "blue.example", Port: 6443}
			c.Spec.Hosting.KubeconfigRef.Name = "blue-kubeconfig"
		}, says: "this tenant itself"},
	} {
		t.Run(name, func(t *testing.T) {
			cluster, controlPlane := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "blue"}}, &controlplanev1.KOKControlPlane{}
			controlPlane.Spec.Hosting.KubeconfigRef.Name = "host"
			test.edit(cluster, controlPlane)
			err := ValidateHostCluster(cluster, controlPlane)
			if test.says == "" && err != nil || test.says != "" && (err == nil || !strings.Contains(err.Error(), test.says)) {
				t.Errorf("got %v, want %q", err, test.says)
			}
		})
	}
}

// kube-apiserver does not start with another family, and says so in its log alone.
func TestServicesHaveTheFamilyOfTheHostCluster(t *testing.T) {
	for name, test := range map[string]struct {
		services           []string
		service, exposedAt string
		fits               bool
	}{
		"IPv4":                            {[]string{"10.96.0.0/16"}, "10.0.0.1", "", true},
		"IPv6":                            {[]string{"fd00::/112"}, "fd01::1", "", true},
		"IPv4 Services on IPv6 hosts":     {[]string{"10.96.0.0/16"}, "fd01::1", "", false},
		"IPv6 Services on IPv4 hosts":     {[]string{"fd00::/112"}, "10.0.0.1", "", false},
		"both, with that of hosts first":  {[]string{"10.96.0.0/16", "fd00::/112"}, "10.0.0.1", "", true},
		"both, with the other one first":  {[]string{"fd00::/112", "10.96.0.0/16"}, "10.0.0.1", "", false},
		"both, in one text":               {[]string{"10.96.0.0/16,fd00::/112"}, "10.0.0.1", "", true},
		"a load balancer of their family": {[]string{"fd00::/112"}, "10.0.0.1", "fd02::1", true},
		"a load balancer of another one":  {[]string{"10.96.0.0/16"}, "10.0.0.1", "fd02::1", false},
	} {
		t.Run(name, func(t *testing.T) {
			in := &components.Input{Cluster: client.ObjectKey{Namespace: "team", Name: "blue"}, Addresses: map[string]string{"blue-kube-apiserver": test.service}}
			in.Network.ServiceCIDRs, in.Exposure.Address = test.services, test.exposedAt
			err := ValidateFamily(in)
			if (err == nil) != test.fits || err != nil && !strings.Contains(err.Error(), "spec.clusterNetwork.services.cidrBlocks of the Cluster begins with") {
				t.Errorf("got %v", err)
			}
		})
	}
}
