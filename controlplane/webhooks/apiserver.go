package webhooks

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/apis/apiserver/install"
	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
	apiservervalidation "k8s.io/apiserver/pkg/apis/apiserver/validation"
	auditapi "k8s.io/apiserver/pkg/apis/audit"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	auditvalidation "k8s.io/apiserver/pkg/apis/audit/validation"
	"k8s.io/apiserver/pkg/audit"
	authenticationcel "k8s.io/apiserver/pkg/authentication/cel"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/kubeapiserver"
)

// validateKubeAPIServer has the rules for what can be said of kube-apiserver alone.
func validateKubeAPIServer(spec controlplanev1.KubeAPIServerSpec, path *field.Path) field.ErrorList {
	errs := validateCertSANs(spec.CertSANs, path.Child("certSANs"))
	if spec.Audit != nil {
		errs = append(errs, validateAuditPolicy(spec.Audit.Policy, path.Child("audit", "policy"))...)
		for i, arg := range spec.ExtraArgs {
			if reason, owned := kubeapiserver.OwnedByAudit(arg.Name); owned {
				errs = append(errs, field.Invalid(path.Child("extraArgs").Index(i).Child("name"), arg.Name, reason))
			}
		}
	}
	return append(errs, validateJWT(spec.JWT, path.Child("jwt"))...)
}

func validateCertSANs(sans []string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, san := range sans {
		_, err := netip.ParseAddr(san)
		isName := len(validation.IsDNS1123Subdomain(san)) == 0 || len(validation.IsWildcardDNS1123Subdomain(san)) == 0
		if err != nil && !isName {
			errs = append(errs, field.Invalid(path.Index(i), san, "must be a DNS name, a wildcard like *.example.com, or an IP address, without scheme and port"))
		}
	}
	return errs
}

var auditDecoder = serializer.NewCodecFactory(audit.Scheme, serializer.EnableStrict).UniversalDecoder()

// validateAuditPolicy reads a policy as kube-apiserver does, but takes an unknown field for the mistake
// that it is.
func validateAuditPolicy(text string, path *field.Path) field.ErrorList {
	if text == "" {
		return nil
	}
	wrong := func(detail string) field.ErrorList {
		return field.ErrorList{field.Invalid(path, field.OmitValueType{}, "must be an audit.k8s.io/v1 Policy as YAML: "+detail)}
	}
	policy := &auditapi.Policy{}
	_, kind, err := auditDecoder.Decode([]byte(text), nil, policy)
	if err != nil {
		return wrong(plainDecodeError(err))
	}
	if want := auditv1.SchemeGroupVersion.WithKind("Policy"); *kind != want {
		return wrong("found " + kind.String())
	}
	if len(policy.Rules) == 0 {
		return wrong("rules must not be empty")
	}
	if errs := auditvalidation.ValidatePolicy(policy); len(errs) > 0 {
		return wrong(errs.ToAggregate().Error())
	}
	return nil
}

var (
	configDecoder = sync.OnceValue(func() runtime.Decoder {
		scheme := runtime.NewScheme()
		install.Install(scheme)
		return serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDecoder()
	})
	celCompiler = sync.OnceValue(authenticationcel.NewDefaultCompiler)
)

// validateJWT reads the list as part of an AuthenticationConfiguration and calls kube-apiserver's own
// validation, which also compiles the CEL expressions.
func validateJWT(list []runtime.RawExtension, path *field.Path) field.ErrorList {
	if len(list) == 0 {
		return nil
	}
	config := &apiserver.AuthenticationConfiguration{}
	var errs field.ErrorList
	for i, raw := range list {
		one, err := decodeJWT(raw)
		if err != nil {
			errs = append(errs, field.Invalid(path.Index(i), string(raw.Raw),
				"must be an element of the jwt list of an apiserver.config.k8s.io/v1 AuthenticationConfiguration: "+err.Error()))
			continue
		}
		config.JWT = append(config.JWT, one)
	}
	if len(errs) > 0 {
		return errs
	}
	for _, err := range apiservervalidation.ValidateAuthenticationConfiguration(celCompiler(), config, nil) {
		err.Field = path.String() + strings.TrimPrefix(err.Field, "jwt")
		errs = append(errs, err)
	}
	return errs
}

// ownIssuer begins the issuer of a tenant's service accounts, which goes on with the cluster's domain.
const ownIssuer = "https://kubernetes.default.svc"

// validateWaysToIssuers refuses issuers with which kube-apiserver does not start, and which its own validation takes without its flags: one
// that it is to ask through konnectivity without having it, and its own.
func validateWaysToIssuers(spec *controlplanev1.KOKControlPlaneSpec, path *field.Path) field.ErrorList {
	mode := cmp.Or(spec.Addons.Konnectivity.Mode, controlplanev1.DefaultKonnectivityMode(spec.Hosting.Exposure.Type))
	var errs field.ErrorList
	for i, raw := range spec.KubeAPIServer.JWT {
		one, err := decodeJWT(raw)
		if err != nil {
			continue // validateJWT says what is wrong.
		}
		issuer := path.Index(i).Child("issuer")
		if way := one.Issuer.EgressSelectorType; way != "" && mode != controlplanev1.AddonManaged {
			errs = append(errs, field.Invalid(issuer.Child("egressSelectorType"), way,
				"needs konnectivity, and addons.konnectivity.mode is None: leave it out, so that API servers ask the issuer from their nodes, or set the mode to Managed where hosting.exposure.type allows that"))
		}
		if strings.HasPrefix(one.Issuer.URL, ownIssuer) {
			errs = append(errs, field.Invalid(issuer.Child("url"), one.Issuer.URL, "is the issuer of the tenant's own service accounts, whose tokens are taken anyway: leave this issuer out"))
		}
	}
	return errs
}

func decodeJWT(raw runtime.RawExtension) (apiserver.JWTAuthenticator, error) {
	document, err := json.Marshal(map[string]any{
		"apiVersion": apiserverv1.SchemeGroupVersion.String(),
		"kind":       "AuthenticationConfiguration",
		"jwt":        []json.RawMessage{raw.Raw},
	})
	if err != nil {
		return apiserver.JWTAuthenticator{}, fmt.Errorf("read JSON: %w", err)
	}
	config := &apiserver.AuthenticationConfiguration{}
	if _, _, err := configDecoder().Decode(document, nil, config); err != nil {
		return apiserver.JWTAuthenticator{}, errors.New(strings.ReplaceAll(plainDecodeError(err), "jwt[0].", ""))
	}
	if len(config.JWT) != 1 {
		return apiserver.JWTAuthenticator{}, errors.New("must not be null")
	}
	return config.JWT[0], nil
}

// plainDecodeError keeps what people can act on.
func plainDecodeError(err error) string {
	if strict, ok := runtime.AsStrictDecodingError(err); ok {
		details := make([]string, 0, len(strict.Errors()))
		for _, detail := range strict.Errors() {
			details = append(details, detail.Error())
		}
		return strings.Join(details, ", ")
	}
	return err.Error()
}
