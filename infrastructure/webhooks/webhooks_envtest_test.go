//go:build envtest

package webhooks_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/envtest"
)

var environment *envtest.Environment

func TestMain(m *testing.M) {
	ctrl.SetLogger(zap.New(zap.WriteTo(os.Stderr)))
	os.Exit(run(m))
}

func run(m *testing.M) int {
	var err error
	if environment, err = envtest.Start(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if err := environment.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}()
	return m.Run()
}

// expect checks what a refusal says, each part as "field: message"; no parts mean no refusal.
func expect(t *testing.T, err error, want ...string) {
	t.Helper()
	var got []string
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Reason == metav1.StatusReasonInvalid {
		for _, cause := range status.Status().Details.Causes {
			got = append(got, cause.Field+": "+cause.Message)
		}
	} else if err != nil {
		t.Fatalf("no refusal but %v", err)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("it says\n%s\nand not\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

const hostKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHAj+gzk1xLq8xF8Uy1HDRvO3nDzVnPwD2zSTsmmmNYE"

func newHost() *infrav1.IDCHost {
	host := &infrav1.IDCHost{ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "host-"}}
	host.Spec.SSHServer = infrav1.SSHServer{
		Address: "192.0.2.7", User: "admin", KeySecretRef: infrav1.SecretReference{Name: "hosts"}, HostKeys: []string{hostKey},
	}
	return host
}

func TestHosts(t *testing.T) {
	const keyHelp = "must be a public key as in /etc/ssh/ssh_host_ed25519_key.pub, for example ssh-ed25519 AAAA"
	for name, test := range map[string]struct {
		edit func(*infrav1.IDCHost)
		want []string
	}{
		"good":     {func(*infrav1.IDCHost) {}, nil},
		"DNS name": {func(h *infrav1.IDCHost) { h.Spec.Address = "host-1.idc.example" }, nil},
		"IPv6":     {func(h *infrav1.IDCHost) { h.Spec.Address = "2001:db8::7" }, nil},
		"address with a port": {func(h *infrav1.IDCHost) { h.Spec.Address = "192.0.2.7:22" }, []string{
			`spec.address: Invalid value: "192.0.2.7:22": must be an IP address or a DNS name, without user and port; these have fields of their own`}},
		"user that is an option": {func(h *infrav1.IDCHost) { h.Spec.User = "-oProxyCommand=id" }, []string{
			`spec.user: Invalid value: "-oProxyCommand=id": must be a user name of letters, digits, '.', '_' and '-', for example admin`}},
		"fingerprint for a key": {func(h *infrav1.IDCHost) { h.Spec.HostKeys = []string{hostKey, "SHA256:abc"} }, []string{
			`spec.hostKeys[1]: Invalid value: "SHA256:abc": ` + keyHelp}},
		"no host key": {func(h *infrav1.IDCHost) { h.Spec.HostKeys = nil }, []string{
			"spec.hostKeys: Required value", `<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation`}},
		"bastion without key": {func(h *infrav1.IDCHost) {
			h.Spec.Bastion = &infrav1.SSHServer{Address: "bastion", User: "jump", KeySecretRef: infrav1.SecretReference{Name: "A"}, HostKeys: []string{"x"}}
		}, []string{
			`spec.bastion.hostKeys[0]: Invalid value: "x": ` + keyHelp,
			`spec.bastion.keySecretRef.name: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`}},
		"no capacity": {func(h *infrav1.IDCHost) {
			h.Spec.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("0")}
		}, []string{
			`spec.capacity[cpu]: Invalid value: "0": must be more than nothing, for example cpu: "8" or memory: 16Gi`}},
	} {
		t.Run(name, func(t *testing.T) {
			host := newHost()
			test.edit(host)
			expect(t, environment.Client.Create(t.Context(), host), test.want...)
			if test.want == nil && host.Spec.Port != 22 {
				t.Errorf("the port is %d", host.Spec.Port)
			}
		})
	}
}

func TestAClaimIsNotHandedFromMachineToMachine(t *testing.T) {
	host := newHost()
	host.Spec.Claim = &infrav1.HostClaim{Name: "a", InstanceID: "1"}
	expect(t, environment.Client.Create(t.Context(), host))
	changed := host.DeepCopy()
	changed.Spec.Claim = &infrav1.HostClaim{Name: "a", InstanceID: "2"}
	expect(t, environment.Client.Update(t.Context(), changed),
		`spec: Invalid value: claim cannot be changed to another machine's: delete the Machine, so that the host is given back clean`)
	host.Spec.Claim = nil
	host.Spec.Address = "192.0.2.8"
	expect(t, environment.Client.Update(t.Context(), host))
}

// It is the way out that the condition of a host names whose machine is gone.
func TestAPersonMayHaveALostHostCleaned(t *testing.T) {
	host := newHost()
	host.Spec.Claim, host.Finalizers = &infrav1.HostClaim{Name: "a", InstanceID: "1"}, []string{infrav1.IDCHostFinalizer}
	expect(t, environment.Client.Create(t.Context(), host))
	expect(t, environment.Client.Patch(t.Context(), host, client.RawPatch(types.MergePatchType, []byte(
		`{"metadata":{"finalizers":null},"spec":{"claim":null,"quarantine":{"reason":"its machine is gone","instanceID":"1"}}}`))))
	if host.Spec.Claim != nil || len(host.Finalizers) > 0 || host.Spec.Quarantine == nil || host.Spec.Quarantine.InstanceID != "1" {
		t.Errorf("%+v", host)
	}
}

func machine() *infrav1.IDCMachine {
	return &infrav1.IDCMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "worker-"}}
}

func TestMachines(t *testing.T) {
	for name, test := range map[string]struct {
		edit func(*infrav1.IDCMachine)
		want []string
	}{
		"good": {func(m *infrav1.IDCMachine) {
			m.Spec.HostSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "a"}}
			m.Spec.MinCapacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8")}
		}, nil},
		"a name that is no host's": {func(m *infrav1.IDCMachine) { m.Name = "worker.a" }, []string{
			`metadata.name: Invalid value: "worker.a": becomes the name of the host and of the Node: it must have at most 63 characters, lower case letters, digits and '-'`}},
		"a selector that selects nothing": {func(m *infrav1.IDCMachine) {
			m.Spec.HostSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Is"}}}
		}, []string{`spec.hostSelector.matchExpressions[0].operator: Invalid value: "Is": not a valid selector operator`}},
		"a host of another namespace": {func(m *infrav1.IDCMachine) { m.Spec.HostRef = &infrav1.HostReference{Name: "other/a"} }, []string{
			`spec.hostRef.name: Invalid value: "other/a": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`}},
		"a provider ID of another host": {func(m *infrav1.IDCMachine) {
			m.Spec.HostRef, m.Spec.InstanceID, m.Spec.ProviderID = &infrav1.HostReference{Name: "a"}, "1", "idc://default/b/1"
		}, []string{`spec.providerID: Invalid value: "idc://default/b/1": must be idc://default/a/1, which names the host in hostRef and the instanceID; the controller writes them all`}},
	} {
		t.Run(name, func(t *testing.T) {
			m := machine()
			test.edit(m)
			expect(t, environment.Client.Create(t.Context(), m), test.want...)
		})
	}
}

// An instance ID goes into files of the machine.
func TestFinding11AnInstanceIDIsANameAlone(t *testing.T) {
	for name, test := range map[string]struct {
		id      string
		refused bool
	}{
		"what the controller makes": {"0f8fad5b-d9cb-469f-a165-70867728950e", false},
		"one with other characters": {"i.1_a-b", false},
		"a line of its own":         {"1\nKUBELET_EXTRA_ARGS=--anonymous-auth=true", true},
		"a line that only begins":   {"1\n", true},
		"another argument":          {"1 --anonymous-auth=true", true},
		"a quote":                   {`1" --a="`, true},
		"a path":                    {"../1", true},
		"a command":                 {"$(id)", true},
		"too much":                  {strings.Repeat("1", 65), true},
	} {
		t.Run(name, func(t *testing.T) {
			made := machine()
			made.Spec.InstanceID = test.id
			claimed, quarantined, unclean := newHost(), newHost(), newHost()
			claimed.Spec.Claim = &infrav1.HostClaim{Name: "a", InstanceID: test.id}
			quarantined.Spec.Quarantine = &infrav1.HostQuarantine{Reason: "a", InstanceID: test.id}
			unclean.Spec.Quarantine, unclean.Spec.UncleanInstanceID = &infrav1.HostQuarantine{Reason: "a"}, test.id
			later := machine()
			expect(t, environment.Client.Create(t.Context(), later))
			later.Spec.InstanceID = test.id
			for what, err := range map[string]error{
				"a machine":                          environment.Client.Create(t.Context(), made),
				"a machine, later":                   environment.Client.Update(t.Context(), later),
				"the claim of a host":                environment.Client.Create(t.Context(), claimed),
				"the quarantine of a host":           environment.Client.Create(t.Context(), quarantined),
				"a host that was not cleaned before": environment.Client.Create(t.Context(), unclean),
			} {
				refused := apierrors.IsInvalid(err) && strings.Contains(strings.ToLower(err.Error()), "instanceid")
				if refused != test.refused || !refused && err != nil {
					t.Errorf("%s: %v", what, err)
				}
			}
		})
	}
}

func TestAMachineKeepsItsHost(t *testing.T) {
	m := machine()
	expect(t, environment.Client.Create(t.Context(), m))
	m.Spec.HostRef, m.Spec.InstanceID = &infrav1.HostReference{Name: "a"}, "1"
	expect(t, environment.Client.Update(t.Context(), m))
	m.Spec.HostRef = nil
	expect(t, environment.Client.Update(t.Context(), m))
	m.Spec.HostRef, m.Spec.ProviderID = &infrav1.HostReference{Name: "b"}, "idc://default/b/1"
	expect(t, environment.Client.Update(t.Context(), m))

	changed := m.DeepCopy()
	changed.Spec.HostRef, changed.Spec.ProviderID, changed.Spec.InstanceID = nil, "", "2"
	changed.Spec.MinCapacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8")}
	changed.Spec.HostSelector = &metav1.LabelSelector{}
	expect(t, environment.Client.Update(t.Context(), changed),
		"spec: Invalid value: providerID is immutable once set: the Node has it",
		"spec: Invalid value: instanceID is immutable once set: the host's claim has it",
		"spec: Invalid value: hostRef is immutable once providerID is set: the machine runs on that host",
		"spec: Invalid value: hostSelector is immutable: the host is chosen once; create a new Machine for another host",
		"spec: Invalid value: minCapacity is immutable: the host is chosen once; create a new Machine for another host")
}

func TestTemplatesAreImmutable(t *testing.T) {
	template := &infrav1.IDCMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "template-"}}
	template.Spec.Template.Spec = &infrav1.HostRequirements{HostSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "a"}}}
	expect(t, environment.Client.Create(t.Context(), template))
	template.Labels = map[string]string{"a": "b"}
	expect(t, environment.Client.Update(t.Context(), template))
	changed := template.DeepCopy()
	changed.Spec.Template.Spec.HostSelector.MatchLabels["pool"] = "b"
	const refusal = "spec.template.spec: Invalid value: is immutable; create a new IDCMachineTemplate and name it in the MachineDeployment or ClusterClass"
	expect(t, environment.Client.Update(t.Context(), changed.DeepCopy()), refusal)
	expect(t, environment.Client.Update(t.Context(), changed.DeepCopy(), client.DryRunAll), refusal)
	t.Run("but for the topology controller's dry runs", func(t *testing.T) {
		dry := changed.DeepCopy()
		dry.Annotations = map[string]string{clusterv1.TopologyDryRunAnnotation: ""}
		expect(t, environment.Client.Update(t.Context(), dry.DeepCopy(), client.DryRunAll))
		expect(t, environment.Client.Update(t.Context(), dry.DeepCopy()), refusal)
	})
	t.Run("those of clusters, too", func(t *testing.T) {
		template := &infrav1.IDCClusterTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "template-"}}
		template.Spec.Template.Spec = &infrav1.IDCClusterTemplateResourceSpec{}
		expect(t, environment.Client.Create(t.Context(), template))
		template.Spec.Template.ObjectMeta.Labels = map[string]string{"a": "b"}
		expect(t, environment.Client.Update(t.Context(), template),
			"spec.template: Invalid value: is immutable; create a new IDCClusterTemplate and name it in the ClusterClass")
	})
}

func TestClusters(t *testing.T) {
	create := func(endpoint infrav1.APIEndpoint) error {
		c := &infrav1.IDCCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "tenant-"}}
		c.Spec.ControlPlaneEndpoint = endpoint
		return environment.Client.Create(t.Context(), c)
	}
	expect(t, create(infrav1.APIEndpoint{}))
	expect(t, create(infrav1.APIEndpoint{Host: "tenant.example", Port: 6443}))
	expect(t, create(infrav1.APIEndpoint{Host: "tenant.example"}),
		"spec.controlPlaneEndpoint: Invalid value: host and port must both be set; leave controlPlaneEndpoint out when the control plane provider gives the address")
	expect(t, create(infrav1.APIEndpoint{Host: "https://tenant.example", Port: 6443}),
		`spec.controlPlaneEndpoint.host: Invalid value: "https://tenant.example": must be an IP address or a DNS name, without user and port; these have fields of their own`)
}
