package arguments_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/arguments"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/kubeapiserver"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/registry"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// rules are those that the description of a component has.
func rules(name string) arguments.Rules {
	component, _ := registry.Components.Named(name)
	return component.Settings.Arguments
}

func TestOwned(t *testing.T) {
	cases := []struct {
		component, name string
		reason          string
	}{
		{names.KubeAPIServer, "secure-port", "pin the block with hosting.ports"},
		{names.KubeAPIServer, "etcd-servers", "etcd clusters"},
		{names.KubeAPIServer, "etcd-servers-overrides", "etcd clusters"},
		{names.KubeAPIServer, "oidc-issuer-url", "set kubeAPIServer.jwt instead"},
		{names.KubeAPIServer, "anonymous-auth", "set kubeAPIServer.jwt instead"},
		{names.KubeAPIServer, "tls-cert-file", "kubeAPIServer.certSANs"},
		{names.KubeAPIServer, "encryption-provider-config-automatic-reload", "set encryptionAtRest instead"},
		{names.KubeAPIServer, "authorization-mode", "Node and RBAC"},
		{names.KubeAPIServer, "service-account-signing-key-file", "issuer and key"},
		{names.KubeControllerManager, "cluster-cidr", "clusterNetwork.pods"},
		{names.KubeControllerManager, "leader-elect", "elect a leader"},
		{names.KubeControllerManager, "kubeconfig", "credentials"},
		{names.KubeControllerManager, "cluster-signing-kubelet-client-key-file", "sign certificates"},
		{names.KubeScheduler, "leader-elect-resource-name", "elect a leader"},
		{names.KubeScheduler, "secure-port", "hosting.ports"},
		{names.KubeScheduler, "config", "kube-scheduler ignores kubeconfig"},
	}
	for _, tc := range cases {
		reason, owned := rules(tc.component).Reason(tc.name)
		NewWithT(t).Expect(owned).To(BeTrue(), "%s --%s", tc.component, tc.name)
		NewWithT(t).Expect(reason).To(ContainSubstring(tc.reason), "%s --%s", tc.component, tc.name)
	}
}

func TestTuningStaysWithTheUser(t *testing.T) {
	free := map[string][]string{
		names.KubeAPIServer: {"v", "goaway-chance", "feature-gates", "tls-min-version", "tls-cipher-suites", "etcd-compaction-interval",
			"etcd-healthcheck-timeout", "service-account-max-token-expiration", "service-node-port-range", "max-requests-inflight",
			"enable-admission-plugins", "audit-webhook-config-file", "authentication-token-webhook-config-file", "event-ttl"},
		names.KubeControllerManager: {"v", "controllers", "cluster-signing-duration", "node-monitor-grace-period", "leader-elect-lease-duration",
			"node-cidr-mask-size", "kube-api-qps"},
		names.KubeScheduler: {"v", "kube-api-qps", "leader-elect-retry-period"},
	}
	for component, list := range free {
		for _, name := range list {
			_, owned := rules(component).Reason(name)
			NewWithT(t).Expect(owned).To(BeFalse(), "%s --%s", component, name)
		}
	}
}

func TestOwnedByAudit(t *testing.T) {
	g := NewWithT(t)
	for name, want := range map[string]bool{
		"audit-policy-file": true, "audit-log-path": true, "audit-log-maxsize": true,
		"audit-webhook-config-file": false, "v": false,
	} {
		_, owned := kubeapiserver.OwnedByAudit(name)
		g.Expect(owned).To(Equal(want), name)
	}
	_, owned := kubeapiserver.Component.Settings.Arguments.Reason("audit-log-path")
	g.Expect(owned).To(BeFalse(), "without spec.kubeAPIServer.audit the log is the user's")
}

func TestCheckValue(t *testing.T) {
	cases := []struct{ component, name, value, want string }{
		{names.KubeAPIServer, "enable-admission-plugins", "AlwaysPullImages", "must contain NodeRestriction: without it a node could change other nodes"},
		{names.KubeAPIServer, "enable-admission-plugins", "AlwaysPullImages,NodeRestriction", ""},
		{names.KubeAPIServer, "disable-admission-plugins", "NodeRestriction", "must not contain NodeRestriction: without it a node could change other nodes"},
		{names.KubeAPIServer, "disable-admission-plugins", "DefaultStorageClass", ""},
		{names.KubeControllerManager, "controllers", "*", "must contain bootstrapsigner: nodes could not join"},
		{names.KubeControllerManager, "controllers", "*,-bootstrapsigner,tokencleaner", "must contain bootstrapsigner: nodes could not join"},
		{names.KubeControllerManager, "controllers", "*,-nodeipam, bootstrapsigner,tokencleaner", ""},
		{names.KubeScheduler, "controllers", "*", ""},
	}
	for _, tc := range cases {
		err := rules(tc.component).CheckValue(tc.name, tc.value)
		if tc.want == "" {
			NewWithT(t).Expect(err).NotTo(HaveOccurred(), "%v", tc)
			continue
		}
		NewWithT(t).Expect(err).To(MatchError(tc.want), "%v", tc)
	}
}
