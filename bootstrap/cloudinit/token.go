package cloudinit

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	bootstraputil "k8s.io/cluster-bootstrap/token/util"
)

// Token is the bootstrap token in a document that Render wrote: the document is the record of it.
func Token(data []byte) (string, error) {
	d, err := unmarshal(data)
	if err != nil {
		return "", err
	}
	config, err := d.bootstrapConfig()
	if err != nil {
		return "", err
	}
	if user := config.AuthInfos[bootstrapUser]; user != nil && bootstraputil.IsValidBootstrapToken(user.Token) {
		return user.Token, nil
	}
	return "", fmt.Errorf("%s holds no bootstrap token", BootstrapKubeconfig)
}

// Trust replaces the cluster CAs, which are PEM, in a document that Render wrote, and changes nothing else. It returns the document itself when
// that has these CAs already.
func Trust(data, caBundle []byte) ([]byte, error) {
	d, err := unmarshal(data)
	if err != nil {
		return nil, err
	}
	config, err := d.bootstrapConfig()
	if err != nil {
		return nil, err
	}
	cluster := config.Clusters[bootstrapCluster]
	if cluster == nil {
		return nil, fmt.Errorf("%s has no cluster %s", BootstrapKubeconfig, bootstrapCluster)
	}
	if bytes.Equal(cluster.CertificateAuthorityData, caBundle) {
		return data, nil
	}
	cluster.CertificateAuthorityData = caBundle
	kubeconfig, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("marshal the bootstrap kubeconfig: %w", err)
	}
	for _, file := range joiningFiles(caBundle, kubeconfig) {
		i := slices.IndexFunc(d.WriteFiles, func(f writeFile) bool { return f.Path == file.Path })
		if i < 0 {
			return nil, errors.New("the document has no file " + file.Path)
		}
		d.WriteFiles[i] = file
	}
	return d.marshal()
}

// bootstrapConfig is the kubeconfig with which a machine joins.
func (d *document) bootstrapConfig() (*clientcmdapi.Config, error) {
	for _, file := range d.WriteFiles {
		if file.Path != BootstrapKubeconfig {
			continue
		}
		content, err := base64.StdEncoding.DecodeString(file.Content)
		if err != nil {
			return nil, fmt.Errorf("decode %s: %w", BootstrapKubeconfig, err)
		}
		config, err := clientcmd.Load(content)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", BootstrapKubeconfig, err)
		}
		return config, nil
	}
	return nil, errors.New("the document has no file " + BootstrapKubeconfig)
}
