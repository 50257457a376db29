package certificates

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/certs"
	"sigs.k8s.io/cluster-api/util/kubeconfig"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/secrets"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/untrusted"
)

// KubeconfigRequest says whose kubeconfig Secret is wanted.
type KubeconfigRequest struct {
	Cluster client.ObjectKey
	// Owner becomes its controller.
	Owner *metav1.OwnerReference
	// Server is the URL of the control plane endpoint.
	Server string
}

// KubeconfigResult says what EnsureKubeconfig found.
type KubeconfigResult struct {
	// Changed is true when the Secret was written.
	Changed bool
	// RenewAt is when the client certificate in it is due.
	RenewAt time.Time
	// EndsAt is when that certificate ends; zero for a Secret that this controller did not make.
	EndsAt time.Time
	// Unsafe says why one that this controller did not make must not be used by Cluster API; empty otherwise.
	Unsafe string
}

// EnsureKubeconfig keeps the Secret "<cluster>-kubeconfig" of Cluster API's control plane contract.
// It is written anew when it is missing or unreadable, when the endpoint or the CA changed, or when
// less than half a year of its client certificate is left. A Secret that this controller did not
// make is a person's and stays as it is; the result says whether it is safe.
func (i Issuer) EnsureKubeconfig(ctx context.Context, management secrets.Access, request KubeconfigRequest) (KubeconfigResult, error) {
	key := client.ObjectKey{Namespace: request.Cluster.Namespace, Name: secret.Name(request.Cluster.Name, secret.Kubeconfig)}
	result := KubeconfigResult{}
	changed, err := management.Settle(ctx, key, func(present *corev1.Secret) error {
		result.RenewAt, result.EndsAt, result.Unsafe = time.Time{}, time.Time{}, ""
		if present.ResourceVersion != "" && !secrets.Ours(present) && !secrets.ControlledBy(present, request.Owner) {
			if err := untrusted.CheckReach(present.Data[secret.KubeconfigDataName]); err != nil {
				result.Unsafe = fmt.Sprintf("Secret %s, which this control plane did not make, has an unsafe kubeconfig: %v; delete the Secret", key, err)
			}
			return nil
		}
		if present.ResourceVersion == "" {
			present.Type = clusterv1.ClusterSecretType
		}
		secrets.Own(present, names.ComponentLabels(request.Cluster, names.PKI), request.Owner)
		now := i.Clock.Now()
		content := present.Data[secret.KubeconfigDataName]
		renewAt, err := i.checkKubeconfig(content, request, now)
		if err != nil {
			if content, err = i.newKubeconfig(request); err != nil {
				return err
			}
			renewAt = now.Add(certs.ClientCertificateRenewalDuration)
		}
		present.Data = map[string][]byte{secret.KubeconfigDataName: content}
		result.RenewAt, result.EndsAt = renewAt, renewAt.Add(certs.ClientCertificateRenewalDuration)
		return nil
	})
	if err != nil {
		return KubeconfigResult{}, fmt.Errorf("kubeconfig of cluster %s: %w", request.Cluster, err)
	}
	result.Changed = changed
	return result, nil
}

func (i Issuer) newKubeconfig(request KubeconfigRequest) ([]byte, error) {
	signer, trusted, err := i.clusterCAs()
	if err != nil {
		return nil, err
	}
	config, err := kubeconfig.New(request.Cluster.Name, request.Server, signer.Certificate, signer.Key,
		kubeconfig.KeyEncryptionAlgorithm(pki.KeyAlgorithm))
	if err != nil {
		return nil, err
	}
	config.Clusters[request.Cluster.Name].CertificateAuthorityData = trusted
	return clientcmd.Write(*config)
}

// clusterCAs are the cluster CA that signs for clients in the phase of its rotation, and those that clients trust.
func (i Issuer) clusterCAs() (signer *pki.CA, trusted []byte, err error) {
	if signer, err = i.Keys.CAByFile(pki.ClusterCA, i.Keys.Files(string(pki.ClusterCA)).Used); err != nil {
		return nil, nil, err
	}
	trusted, err = Trusted(i.Keys, pki.ClusterCA)
	return signer, trusted, err
}

// checkKubeconfig returns an error when a kubeconfig must be made anew, and otherwise when that is due.
func (i Issuer) checkKubeconfig(content []byte, request KubeconfigRequest, now time.Time) (time.Time, error) {
	if err := untrusted.CheckReach(content); err != nil {
		return time.Time{}, err
	}
	config, err := clientcmd.Load(content)
	if err != nil {
		return time.Time{}, err
	}
	kubeContext := config.Contexts[config.CurrentContext]
	if kubeContext == nil {
		return time.Time{}, errors.New("no current context")
	}
	cluster, user := config.Clusters[kubeContext.Cluster], config.AuthInfos[kubeContext.AuthInfo]
	if cluster == nil || user == nil {
		return time.Time{}, errors.New("no cluster or no user")
	}
	if cluster.Server != request.Server {
		return time.Time{}, errors.New("the endpoint changed")
	}
	signer, trusted, err := i.clusterCAs()
	if err != nil {
		return time.Time{}, err
	}
	if !bytes.Equal(cluster.CertificateAuthorityData, trusted) {
		return time.Time{}, errors.New("the CA changed")
	}
	certificate, err := readPair(user.ClientCertificateData, user.ClientKeyData)
	if err != nil {
		return time.Time{}, err
	}
	if err := certificate.CheckSignatureFrom(signer.Certificate); err != nil {
		return time.Time{}, err
	}
	renewAt := certificate.NotAfter.Add(-certs.ClientCertificateRenewalDuration)
	if !now.Before(renewAt) {
		return time.Time{}, errors.New("past half of its life")
	}
	return renewAt, nil
}

// KubeconfigFile says what a component's kubeconfig names.
type KubeconfigFile struct {
	// Server is a URL.
	Server string
	// User is the name of the user in the file.
	User string
	// CAFile, CertFile and KeyFile are paths in the component's container.
	CAFile, CertFile, KeyFile string
}

// ComponentKubeconfig is a kubeconfig that names certificate files by path: client-go reads them
// again when they change, so that a renewed certificate needs no restart.
func ComponentKubeconfig(file KubeconfigFile) ([]byte, error) {
	const name = "tenant"
	out, err := clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{name: {
			Server: file.Server, TLSServerName: TenantServerName, CertificateAuthority: file.CAFile,
		}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{file.User: {
			ClientCertificate: file.CertFile, ClientKey: file.KeyFile,
		}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: file.User}},
		CurrentContext: name,
	})
	if err != nil {
		return nil, fmt.Errorf("marshal kubeconfig of %s: %w", file.User, err)
	}
	return out, nil
}
