package kubeapiserver

import (
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
	"sigs.k8s.io/yaml"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

const (
	authenticationFile = "authentication.yaml"
	auditPolicyFile    = "audit-policy.yaml"
)

//go:embed audit-policy.yaml
var defaultAuditPolicy string

// anonymousPaths can be read without a credential: what probes request, and what a joining machine
// verifies with its token before it trusts the CA (kubeadm's discovery).
var anonymousPaths = []string{"/livez", "/readyz", "/healthz", "/api/v1/namespaces/kube-public/configmaps/cluster-info"}

// configMap holds the files that kube-apiserver reads besides Secrets. It reloads the
// authentication configuration by itself.
func configMap(in *components.Input) (*corev1.ConfigMap, error) {
	authentication, err := authenticationConfiguration(in)
	if err != nil {
		return nil, err
	}
	files := map[string]string{authenticationFile: authentication}
	if audit := in.Spec.KubeAPIServer.Audit; audit != nil {
		files[auditPolicyFile] = auditPolicy(audit)
	}
	if in.Spec.Addons.Konnectivity.Managed() {
		files[egressSelectorFile] = egressSelector
	}
	return components.ConfigMap(in, names.KubeAPIServer, files), nil
}

// AuditPolicyAnnotation holds a hash of the audit policy. kube-apiserver reads that file once, when it
// starts: another policy makes new pods.
const AuditPolicyAnnotation = "kok.cluster.x-k8s.io/audit-policy-hash"

// auditPolicy is the user's policy, or the one that goes without saying.
func auditPolicy(audit *controlplanev1.AuditSpec) string {
	return cmp.Or(audit.Policy, defaultAuditPolicy)
}

func auditPolicyHash(audit *controlplanev1.AuditSpec) string {
	hash := sha256.Sum256([]byte(auditPolicy(audit)))
	return hex.EncodeToString(hash[:8])
}

// authenticationConfiguration allows anonymous requests for a few paths only (KEP-4633) and trusts
// the user's token issuers (KEP-3331).
func authenticationConfiguration(in *components.Input) (string, error) {
	config := apiserverv1.AuthenticationConfiguration{
		TypeMeta:  metav1.TypeMeta{APIVersion: apiserverv1.SchemeGroupVersion.String(), Kind: "AuthenticationConfiguration"},
		Anonymous: &apiserverv1.AnonymousAuthConfig{Enabled: true},
		JWT:       []apiserverv1.JWTAuthenticator{},
	}
	for _, path := range anonymousPaths {
		config.Anonymous.Conditions = append(config.Anonymous.Conditions, apiserverv1.AnonymousAuthCondition{Path: path})
	}
	for i, raw := range in.Spec.KubeAPIServer.JWT {
		var issuer apiserverv1.JWTAuthenticator
		if err := json.Unmarshal(raw.Raw, &issuer); err != nil {
			return "", fmt.Errorf("read spec.kubeAPIServer.jwt[%d]: %w", i, err)
		}
		config.JWT = append(config.JWT, issuer)
	}
	raw, err := yaml.Marshal(config)
	if err != nil {
		return "", fmt.Errorf("render the authentication configuration: %w", err)
	}
	return string(raw), nil
}
