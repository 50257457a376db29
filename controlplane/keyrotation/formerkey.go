package keyrotation

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/golang-jwt/jwt/v5"
	corev1 "k8s.io/api/core/v1"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/rebuild"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/probe"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/rotation"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/tenantprobes"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/errortext"
)

const (
	// formerKeyProbeKind is the kind of the probe that looks for tokens of a former service account key.
	formerKeyProbeKind = "former-key"
	// formerKeyTimeout is for all pages of Secrets of a tenant.
	formerKeyTimeout = 30 * time.Second
	// mostNamed is how many things of one kind in a tenant are named: a condition has at most 32 KiB, and a name 253 bytes.
	mostNamed = 10
)

// podTokensLife is how long kubelet keeps a token of a pod at the most, and a little more: it renews each after 24 hours or four fifths
// of its life (pkg/kubelet/token of Kubernetes).
const podTokensLife = 24*time.Hour + 10*time.Minute

// addTokens adds what needs the former service account key.
func (u *run) addTokens(_ context.Context, state *rotation.State, l look) error {
	former, err := u.keys.FormerTokenKeys()
	if err != nil {
		return err
	}
	// Names are of this rotation alone: who gives up something of it gives up nothing of the next.
	of := u.keys.Rotation(pki.ServiceAccount).File()
	since, err := time.Parse(time.RFC3339, state.Record.Since)
	if err != nil {
		return fmt.Errorf("read since when the new service account key is in use: %w", err)
	}
	if renewed := since.Add(podTokensLife); u.Clock.Now().Before(renewed) {
		state.Needs = append(state.Needs, rotation.Need{
			Name: "pod-tokens/" + of,
			Why:  fmt.Sprintf("kubelets renew the tokens of all pods until %s, and those of most within an hour", rebuild.Stamp(renewed)),
		})
	}
	check := &formerKeyProbe{api: u.Tenants.Of(u.of.ControlPlane, u.keys), keys: former, of: of, givenUp: state.GivenUp}
	result, told := u.Prober.Probe(l.key, check.probe(state.Record, l.due))
	found, seen := result.Value.(formerTokens)
	if !told {
		u.step.Probing, result.Problem = true, "the tenant is being probed"
	}
	if !seen {
		state.Needs = append(state.Needs, unseen("unseen/"+of, result.Problem, told))
	}
	for _, name := range found.secrets {
		state.Needs = append(state.Needs, rotation.Need{Name: secretNeed(of, name)})
	}
	if found.more > 0 {
		state.Needs = append(state.Needs, rotation.Need{Name: "other-secrets/" + of, Why: fmt.Sprintf("%d more Secrets, which are named when others of them are mended or given up", found.more)})
	}
	return nil
}

// unseen is the need of a look at the tenant. A person may give up a look that failed. Nobody gives up a look that has not ended, because it
// may still find something that needs the former key.
func unseen(name, why string, told bool) rotation.Need {
	return rotation.Need{Name: name, Why: why, Lost: !told, Unknown: !told}
}

func secretNeed(file, secret string) string { return "secret/" + file + "/" + secret }

// formerKeyProbe looks in a tenant for Secrets with tokens that were signed with a former service account key. They never end by
// themselves.
type formerKeyProbe struct {
	api *tenantprobes.API
	// keys are the IDs of former keys, as tokens have them.
	keys []string
	// of is the file of the new key, which is in names. givenUp are the names that a person has given up: others are named in their places.
	of      string
	givenUp []string
}

// formerTokens are the Secrets as "namespace/name", and how many more there are.
type formerTokens struct {
	secrets []string
	more    int
}

// probe looks once more when the end is due: a Secret may have come since the last look. It also looks anew when a person changes the names
// that are given up: the last look left out names that the person may have taken back.
func (v *formerKeyProbe) probe(of rotation.Record, due bool) probe.Probe {
	return probe.Probe{
		Identity: fmt.Sprintf("%s\n%s\n%t\n%s\n%q", of.Asked, of.Since, due, v.api.Identity(), v.givenUp),
		Timeout:  formerKeyTimeout,
		Do:       v.do,
	}
}

// do reports a problem while a Secret has such a token, so that the prober repeats it sooner.
func (v *formerKeyProbe) do(ctx context.Context) probe.Result {
	found, err := v.find(ctx)
	if err != nil {
		return probe.Result{Problem: fmt.Sprintf("the tenant's API at %s does not tell which tokens there are: %s", v.api.Address(), errortext.Steady(err))}
	}
	result := probe.Result{Value: found}
	if len(found.secrets) > 0 {
		result.Problem = rotation.Some(found.secrets, found.more)
	}
	return result
}

func (v *formerKeyProbe) find(ctx context.Context) (formerTokens, error) {
	var found formerTokens
	err := v.api.EachSecret(ctx, corev1.SecretTypeServiceAccountToken, func(secret *corev1.Secret) { v.add(&found, secret) })
	return found, err
}

// add takes a Secret with a token of a former key that nobody has given up.
func (v *formerKeyProbe) add(found *formerTokens, secret *corev1.Secret) {
	name := secret.Namespace + "/" + secret.Name
	switch {
	case !slices.Contains(v.keys, keyOfToken(secret.Data[corev1.ServiceAccountTokenKey])), slices.Contains(v.givenUp, secretNeed(v.of, name)):
	case len(found.secrets) == mostNamed:
		found.more++
	default:
		found.secrets = append(found.secrets, name)
	}
}

// keyOfToken reads the ID of the signing key from the header of a token. It returns "" if the header names no key.
func keyOfToken(token []byte) string {
	// Whether the token is signed does not matter: what is looked for is a name.
	parsed, _, err := jwt.NewParser().ParseUnverified(string(token), jwt.MapClaims{})
	if err != nil {
		return ""
	}
	key, _ := parsed.Header["kid"].(string)
	return key
}
