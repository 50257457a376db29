package tenantapi

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/untrusted"
)

// Reader reads Secrets like inner, but puts kubeconfigs that lead to the Gate in place of those of Clusters.
func (g *Gate) Reader(inner client.Reader) client.Reader { return reader{inner, g} }

type reader struct {
	client.Reader
	gate *Gate
}

// Get implements client.Reader.
func (r reader) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	err := r.Reader.Get(ctx, key, object, options...)
	read, isSecret := object.(*corev1.Secret)
	name, isKubeconfig := strings.CutSuffix(key.Name, "-"+string(secret.Kubeconfig))
	if !isSecret || !isKubeconfig {
		return err
	}
	tenant := client.ObjectKey{Namespace: key.Namespace, Name: name}
	if apierrors.IsNotFound(err) {
		r.gate.forget(tenant)
	}
	if err != nil {
		return err
	}
	content, err := r.gate.lead(tenant, read.Data[secret.KubeconfigDataName])
	if err != nil {
		return r.gate.refuse(tenant, fmt.Errorf("the kubeconfig in Secret %s is refused: %w", key, err))
	}
	read.Data = map[string][]byte{secret.KubeconfigDataName: content}
	return nil
}

func (g *Gate) forget(tenant client.ObjectKey) {
	g.lock.Lock()
	defer g.lock.Unlock()
	g.end(tenant)
	delete(g.problems, tenant)
}

func (g *Gate) refuse(tenant client.ObjectKey, problem error) error {
	g.lock.Lock()
	defer g.lock.Unlock()
	g.end(tenant)
	g.problems[tenant] = problem.Error()
	return problem
}

// lead makes a kubeconfig that leads through the Gate to the same server, without credentials.
func (g *Gate) lead(tenant client.ObjectKey, kubeconfig []byte) ([]byte, error) {
	config, err := untrusted.TenantConfig(kubeconfig)
	if err != nil {
		return nil, err
	}
	known, err := g.connect(tenant, sha256.Sum256(kubeconfig), config)
	if err != nil {
		return nil, err
	}
	server, err := url.Parse(config.Host)
	if err != nil {
		return nil, err
	}
	server.Scheme, server.Host = "http", known.host
	const name = "tenant"
	return clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{name: {Server: server.String(), ProxyURL: g.address(known), DisableCompression: true}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: {}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	})
}
