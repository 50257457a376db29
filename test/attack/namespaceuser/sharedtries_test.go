//go:build attack

package namespaceuser

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/giveaway"
)

// mountsSecret is a control plane whose kube-scheduler mounts a Secret.
func mountsSecret(name string) edit {
	return func(c *controlplanev1.KOKControlPlane) {
		c.Spec.KubeScheduler.ExtraVolumes = []controlplanev1.ExtraVolume{{
			Name: "extra", MountPath: "/extra", Secret: &corev1.SecretVolumeSource{SecretName: name},
		}}
	}
}

// One namespace is for one trust domain. Who may write control planes and configs there, but read no Secrets, gets no keys of the
// other tenants by them all the same.
func TestNobodyMountsTheKeysOfAnotherTenantInTheNamespace(t *testing.T) {
	a := newAttacker(t)
	a.neighbours = []string{hostNetworkName + "-"}
	administrate(t, clusterOf(a.namespace, hostNetworkName))
	administrate(t, single(a.namespace, hostNetworkName))
	theirs := a.secret(hostNetworkName+"-registry", corev1.SecretTypeOpaque, map[string]string{"key": marker})
	administrate(t, theirs)
	eventually(t, "the other tenant has keys", func(ctx context.Context) error {
		return management.client.Get(ctx, client.ObjectKey{Namespace: a.namespace, Name: hostNetworkName + "-key-material"}, &corev1.Secret{})
	})
	own := a.secret("own", corev1.SecretTypeOpaque, map[string]string{"key": "of-the-attacker"})
	own.Labels = map[string]string{giveaway.Label: giveaway.Allowed}
	a.must(own)

	passes := once(storesTheSame)
	const keys = "hold keys of tenants"
	material := hostNetworkName + "-key-material"
	tries := map[string]try{
		"a volume of a patch":           refused(addsVolume(`"secret":{"secretName":"own"}`), addsVolume(`"secret":{"secretName":"`+material+`"}`), keys),
		"a projected volume of a patch": refused(addsVolume(`"projected":{"sources":[{"secret":{"name":"own"}}]}`), addsVolume(`"projected":{"sources":[{"secret":{"name":"`+material+`"}}]}`), keys),
		"the environment by a patch":    refused(addsContainer(`,"envFrom":[{"secretRef":{"name":"own"}}]`, ""), addsContainer(`,"envFrom":[{"secretRef":{"name":"`+material+`"}}]`, ""), keys),
		"a variable by a patch": refused(addsContainer(`,"env":[{"name":"a","valueFrom":{"secretKeyRef":{"name":"own","key":"key"}}}]`, ""),
			addsContainer(`,"env":[{"name":"a","valueFrom":{"secretKeyRef":{"name":"`+material+`","key":"key"}}}]`, ""), keys),
		"the keys of one's own tenant in an added container": refused(addsVolume(`"secret":{"secretName":"own"}`),
			addsContainer(`,"volumeMounts":[{"name":"kok-keys","mountPath":"/extra"}]`, `,"volumes":[{"name":"kok-keys","secret":{"secretName":"`+material+`"}}]`), "names with the prefix kok- belong to the controller"),
		"a volume of a stored rendering": stores(passes, field([]any{content{"name": "extra", "secret": content{"secretName": material}}}, pods("volumes")...), keys),
		"a volume of a stored rendering that passes for the controller's": stores(passes, field([]any{content{"name": "kok-keys", "secret": content{"secretName": material}}}, pods("volumes")...),
			"must be a Secret or ConfigMap of etcd-data"),
		"a file of a machine": {control: joins(readsFile("own")), stoppedBy: "lacks the label " + giveaway.Label, attack: func(a *attacker) (client.Object, error) {
			worker := a.worker(readsFile(theirs.Name), a.tenantKubeconfig())
			a.clusterIsUp(worker)
			return worker, nil
		}},
	}
	for _, ending := range []string{"-key-material", "-etcd-data-certs", "-ca", "-etcd", "-etcd-events", "-proxy", "-sa", "-encryption", "-key-rotation", "-kubeconfig"} {
		tries["a volume of the spec, of "+ending] = refused(mountsSecret("own"), mountsSecret(hostNetworkName+ending), keys)
	}
	a.attempt(t, tries)
}

// A config whose Secret would have another's name must not write over it.
func TestNobodyWritesOverTheKeysOfAnotherTenantInTheNamespace(t *testing.T) {
	a := newAttacker(t)
	theirs := a.secret("theirs", corev1.SecretTypeOpaque, map[string]string{"value": "of-others"})
	administrate(t, theirs)
	before := theirs.ResourceVersion
	a.attempt(t, map[string]try{"bootstrap data in place of a Secret": {
		control:   joins(nothingOf),
		stoppedBy: "secret theirs is there and does not belong to this KOKConfig",
		attack: func(a *attacker) (client.Object, error) {
			config := a.worker(nothingOf, a.tenantKubeconfig())
			other := &bootstrapv1.KOKConfig{ObjectMeta: withLabels(a.meta(theirs.Name), config.Labels)}
			other.OwnerReferences = config.OwnerReferences
			a.must(other)
			a.clusterIsUp(config)
			return other, nil
		},
	}})
	if err := management.client.Get(t.Context(), client.ObjectKeyFromObject(theirs), theirs); err != nil || theirs.ResourceVersion != before {
		t.Errorf("the Secret was changed: %s", fmt.Sprint(theirs.Data, err))
	}
}
