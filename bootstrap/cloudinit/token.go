package cloudinit

import (
	"encoding/base64"
	"errors"
	"fmt"

	"k8s.io/client-go/tools/clientcmd"
	bootstraputil "k8s.io/cluster-bootstrap/token/util"
)

// Token is the bootstrap token in a document that Render wrote: the document is the record of it.
func Token(data []byte) (string, error) {
	d, err := unmarshal(data)
	if err != nil {
		return "", err
	}
	for _, file := range d.WriteFiles {
		if file.Path != BootstrapKubeconfig {
			continue
		}
		content, err := base64.StdEncoding.DecodeString(file.Content)
		if err != nil {
			return "", fmt.Errorf("decode %s: %w", BootstrapKubeconfig, err)
		}
		config, err := clientcmd.Load(content)
		if err != nil {
			return "", fmt.Errorf("read %s: %w", BootstrapKubeconfig, err)
		}
		if user := config.AuthInfos[bootstrapUser]; user != nil && bootstraputil.IsValidBootstrapToken(user.Token) {
			return user.Token, nil
		}
		return "", fmt.Errorf("%s holds no bootstrap token", BootstrapKubeconfig)
	}
	return "", errors.New("the document has no file " + BootstrapKubeconfig)
}
