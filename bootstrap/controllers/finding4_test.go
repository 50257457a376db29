package controllers

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/giveaway"
)

// fileFrom makes the config of ready take a file from a Secret.
func fileFrom(name, secretKey string) []client.Object {
	objects := ready()
	for _, object := range objects {
		if config, ok := object.(*bootstrapv1.KOKConfig); ok {
			config.Spec.Files = []bootstrapv1.File{{Path: "/etc/a", ContentFrom: &bootstrapv1.FileSource{Secret: bootstrapv1.SecretKey{Name: name, Key: secretKey}}}}
		}
	}
	return objects
}

// Finding 4: who may write KOKConfigs or KOKSoftwares had any Secret of the namespace put on a worker. The same Secret goes there once
// its label says so.
func TestFinding4OnlyMarkedSecretsReachAMachine(t *testing.T) {
	const ofOthers = "SECRETOFOTHERS"
	const says = "Secret keys lacks the label kok.cluster.x-k8s.io/for-tenants, without which no Secret is given to tenants or their machines; " +
		"if it may be, set it: kubectl -n team label secret keys kok.cluster.x-k8s.io/for-tenants=true"
	described := kokSoftware("software-v1.36.3")
	described.Spec.Mirrors[0].Endpoints[0].SecretRef.Name = "keys"
	keys := func(kind corev1.SecretType) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: "keys", Labels: map[string]string{giveaway.Label: "no"}}, Type: kind,
			Data: map[string][]byte{"tls.key": []byte(ofOthers), "username": []byte("a"), "password": []byte(ofOthers)}}
	}
	inFile := func(f *fixture) string { return string(filesOf(f)["/etc/a"]) }
	for name, test := range map[string]struct {
		objects []client.Object
		says    string
		// arrives is what the machine has of the Secret; nil where it has nothing even if the Secret is marked.
		arrives func(*fixture) string
	}{
		"by a file":                       {append(fileFrom("keys", "tls.key"), keys(corev1.SecretTypeOpaque)), "spec.files[0].contentFrom: " + says, inFile},
		"by a file, whatever keys it has": {append(fileFrom("keys", "none"), keys(corev1.SecretTypeOpaque)), "spec.files[0].contentFrom: " + says, nil},
		"by a mirror": {append(asking(bootstrapv1.SoftwareSpec{}), described, keys(corev1.SecretTypeBasicAuth)),
			"spec.mirrors[0].endpoints[0].secretRef of KOKSoftware software-v1.36.3: " + says,
			func(f *fixture) string { return documentOf(f.t, f).Mirrors[0].Endpoints[0].Password }},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, test.objects...)
			f.mustReconcile()
			f.expectCondition("DataSecretAvailable", metav1.ConditionFalse, "ReferencedSecretNotForTenants")
			if message := conditions.GetMessage(f.config(), "DataSecretAvailable"); message != test.says {
				t.Errorf("it says %q, want %q", message, test.says)
			}
			if err := f.management.Get(t.Context(), key, &corev1.Secret{}); !apierrors.IsNotFound(err) {
				t.Errorf("bootstrap data was written: %v", err)
			}
			if test.arrives == nil {
				return
			}
			marked := get[corev1.Secret](f, f.management, client.ObjectKey{Namespace: key.Namespace, Name: "keys"})
			marked.Labels[giveaway.Label] = giveaway.Allowed
			if err := f.management.Update(t.Context(), marked); err != nil {
				t.Fatal(err)
			}
			f.mustReconcile()
			f.expectCondition("DataSecretAvailable", metav1.ConditionTrue, "Available")
			if got := test.arrives(f); got != ofOthers {
				t.Errorf("once it is marked the machine has %q of it", got)
			}
		})
	}
}

func TestAMarkedSecretReachesAMachineAndIsTakenAlong(t *testing.T) {
	secret := &corev1.Secret{ObjectMeta: forTenants("banner"), Data: map[string][]byte{"a": []byte("welcome-to-blue")}}
	f := newFixture(t, append(fileFrom("banner", "a"), secret)...)
	f.mustReconcile()
	f.expectCondition("DataSecretAvailable", metav1.ConditionTrue, "Available")
	live := get[corev1.Secret](f, f.management, client.ObjectKeyFromObject(secret))
	if _, labelled := live.Labels[clusterctlv1.ClusterctlMoveLabel]; !labelled || live.Labels["kok.cluster.x-k8s.io/for-tenants"] != "true" {
		t.Errorf("clusterctl move would leave the Secret behind: %v", live.Labels)
	}
}
