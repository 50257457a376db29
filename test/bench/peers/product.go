package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/yamlprocessor"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/yaml"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/shape"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/manifests"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/scheme"
)

// Files of a peer's folder.
const (
	productFile = "peer.yaml"
	installFile = "install.yaml"
	tenantFile  = "tenant.yaml"
	imagesDir   = "images"
)

// product runs control planes as pods: ours, or the peer that a folder describes.
type product struct {
	// Name is the product's, for people.
	Name string `json:"name"`
	// Kubeconfig is the Secret with a tenant's kubeconfig, in the namespace of the tenant.
	Kubeconfig kubeconfigRef `json:"kubeconfig"`

	// images are archives that host nodes get. install is the file that is applied once. Both are empty where the lab has all.
	images  []string
	install string
	// tenant are the manifests of a tenant, with variables.
	tenant string
}

type kubeconfigRef struct {
	// Secret is its name, in which ${NAME} is that of the tenant, and Key the key of its data.
	Secret string `json:"secret"`
	Key    string `json:"key"`
}

// readPeer reads a folder. It fails with the file and the field that is wrong.
func readPeer(folder string) (*product, error) {
	raw, err := os.ReadFile(filepath.Join(folder, productFile))
	if err != nil {
		return nil, fmt.Errorf("--peer: %w", err)
	}
	p := &product{}
	if err := yaml.UnmarshalStrict(raw, p); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(folder, productFile), err)
	}
	tenant, err := os.ReadFile(filepath.Join(folder, tenantFile))
	if err != nil {
		return nil, fmt.Errorf("--peer: %w", err)
	}
	p.tenant = string(tenant)
	if p.images, err = filepath.Glob(filepath.Join(folder, imagesDir, "*.tar")); err != nil {
		return nil, err
	}
	switch _, err := os.Stat(filepath.Join(folder, installFile)); {
	case err == nil:
		p.install = filepath.Join(folder, installFile)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	if err := p.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", folder, err)
	}
	return p, nil
}

func (p *product) check() error {
	switch {
	case p.Name == "" || len(validation.IsValidLabelValue(p.label())) > 0:
		return fmt.Errorf("%s: name %q: it is what the report calls the peer, of letters, digits, spaces, dots and dashes", productFile, p.Name)
	case p.Kubeconfig.Secret == "" || p.Kubeconfig.Key == "":
		return errors.New(productFile + ": kubeconfig.secret and kubeconfig.key name where the kubeconfig of a tenant is; one is empty")
	}
	inSecret, err := yamlprocessor.NewSimpleProcessor().GetVariables([]byte(p.Kubeconfig.Secret))
	if err != nil {
		return fmt.Errorf("%s: kubeconfig.secret: %w", productFile, err)
	}
	for _, variable := range inSecret {
		if variable != "NAME" {
			return fmt.Errorf("%s: kubeconfig.secret has the variable %s, and may have NAME alone: the Secret is in the namespace of the tenant", productFile, variable)
		}
	}
	has, err := yamlprocessor.NewSimpleProcessor().GetVariables([]byte(p.tenant))
	if err != nil {
		return fmt.Errorf("%s: %w", tenantFile, err)
	}
	if !slices.Equal(has, []string{"NAME", "NAMESPACE", "VERSION"}) {
		return fmt.Errorf("%s has the variables %q, and needs NAME, NAMESPACE and VERSION alone: tenants differ by name and namespace, and are upgraded by version", tenantFile, has)
	}
	return nil
}

// ours is this product, whose providers are in the lab: a highly available control plane on all host nodes.
func ours() (*product, error) {
	cluster, controlPlane := shape.HighlyAvailable.Objects(client.ObjectKey{Namespace: "${NAMESPACE}", Name: "${NAME}"}, "${VERSION}", nil)
	p := &product{Name: "KOK", Kubeconfig: kubeconfigRef{Secret: "${NAME}-kubeconfig", Key: "value"}}
	for _, object := range []client.Object{cluster, controlPlane} {
		kind, err := apiutil.GVKForObject(object, scheme.Scheme())
		if err != nil {
			return nil, err
		}
		object.GetObjectKind().SetGroupVersionKind(kind)
		raw, err := yaml.Marshal(object)
		if err != nil {
			return nil, err
		}
		p.tenant += "---\n" + string(raw)
	}
	return p, p.check()
}

// label returns the name of the product as the value of a label.
func (p *product) label() string { return strings.ReplaceAll(p.Name, " ", "-") }

// manifests returns those of a tenant, in a namespace of its own name. clusterctl's own processor fills the variables in.
func (p *product) manifests(name, version string) (string, error) {
	return manifests.Fill([]byte(p.tenant), map[string]string{"NAME": name, "NAMESPACE": name, "VERSION": version})
}

// secret returns the name of the Secret with the kubeconfig of a tenant.
func (p *product) secret(name string) (string, error) {
	return manifests.Fill([]byte(p.Kubeconfig.Secret), map[string]string{"NAME": name})
}
