package pki

import (
	"crypto/rand"
	"fmt"

	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/clusterca"
)

const (
	// EtcdEventsPurpose names the Secret of the events etcd's CA, as Cluster API names the others.
	EtcdEventsPurpose = secret.Purpose("etcd-events")
	// EncryptionPurpose names the Secret of the encryption key.
	EncryptionPurpose = secret.Purpose("encryption")
	// RotationPurpose names the Secret with the rotations of keys.
	RotationPurpose = secret.Purpose("key-rotation")

	// KeyAlgorithm is that of every key pair of a tenant, ECDSA P-256: to make an RSA key takes longer than anything else in the creation of a
	// tenant.
	KeyAlgorithm = bootstrapv1.EncryptionAlgorithmECDSAP256

	// ServiceAccount is the kind of key that signs tokens of service accounts.
	ServiceAccount = "service account key"
	// Encryption is the kind of key by which API servers encrypt what they store.
	Encryption = "encryption key"
)

// item is one piece of key material: a Secret in the management cluster, a few data keys in the
// host cluster's copy.
type item struct {
	name    string
	purpose secret.Purpose
	// managementKeys and hostKeys name the same parts in the same order.
	managementKeys, hostKeys []string
	// check returns a *partError for parts that cannot be used.
	check    func(parts [][]byte) error
	generate func() ([][]byte, error)
	// rotation is the data key of its rotation, in both copies; empty for a kind that does not rotate. both are the parts of the former and
	// the next key together, for a program that takes them in the place of one key.
	rotation string
	both     func(former, next [][]byte, nextIsUsed bool) [][]byte
	// oneFile is true for a kind whose keys programs trust by one file with the public parts of all.
	oneFile bool
	// trustedKey is the data key of Cluster API's Secret that has the public parts of both keys while the kind rotates, for other providers;
	// empty for a kind that nobody else trusts.
	trustedKey string
}

var pairKeys = []string{secret.TLSCrtDataName, secret.TLSKeyDataName}

var items = []item{
	clusterCA(),
	ca(EtcdCA, secret.EtcdCA, EtcdCACert, EtcdCAKey, "etcd-ca.rotation"),
	ca(EtcdEventsCA, EtcdEventsPurpose, EtcdEventsCACert, EtcdEventsCAKey, "etcd-events-ca.rotation"),
	ca(FrontProxyCA, secret.FrontProxyCA, FrontProxyCACert, FrontProxyCAKey, "front-proxy-ca.rotation"),
	{
		name: ServiceAccount, purpose: secret.ServiceAccount,
		managementKeys: pairKeys, hostKeys: []string{ServiceAccountPub, ServiceAccountKey},
		check: checkServiceAccount, generate: pair(secret.ServiceAccount),
		rotation: "sa.rotation", both: bothPairs,
	},
	{
		name: Encryption, purpose: EncryptionPurpose,
		managementKeys: []string{EncryptionKey}, hostKeys: []string{EncryptionKey},
		check: checkEncryptionKey, rotation: "encryption.rotation", both: bothEncryptionKeys,
		generate: func() ([][]byte, error) {
			key := make([]byte, encryptionKeySize)
			if _, err := rand.Read(key); err != nil {
				return nil, fmt.Errorf("read random bytes: %w", err)
			}
			return [][]byte{key}, nil
		},
	},
}

// clusterCA is the CA that others trust, too. kube-controller-manager signs by a file with one certificate: a Cluster that is made from
// stored keys has the CA that was in use.
func clusterCA() item {
	it := ca(ClusterCA, secret.ClusterCA, CACert, CAKey, "ca.rotation")
	it.both, it.trustedKey = usedPair, clusterca.TrustedDataKey
	return it
}

func usedPair(former, next [][]byte, nextIsUsed bool) [][]byte {
	if nextIsUsed {
		return next
	}
	return former
}

// ca is the item of a CA.
func ca(signer Signer, purpose secret.Purpose, certKey, keyKey, rotation string) item {
	return item{
		name: string(signer), purpose: purpose,
		managementKeys: pairKeys, hostKeys: []string{certKey, keyKey},
		check: checkCA, generate: pair(purpose),
		rotation: rotation, both: bothPairs, oneFile: true,
	}
}

func pair(purpose secret.Purpose) func() ([][]byte, error) {
	return func() ([][]byte, error) {
		certificate := secret.Certificate{Purpose: purpose, KeyEncryptionAlgorithm: KeyAlgorithm}
		if err := certificate.Generate(); err != nil {
			return nil, err
		}
		return [][]byte{certificate.KeyPair.Cert, certificate.KeyPair.Key}, nil
	}
}
