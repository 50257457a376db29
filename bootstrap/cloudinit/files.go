package cloudinit

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/unit"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/onworker"
)

// reserved are the files and, with a slash at their end, directories that belong to the controller or to programs that it
// starts.
var reserved = []string{
	onworker.Dir, CAFile, BootstrapKubeconfig, onworker.Kubeconfig, KubeletConfiguration, onworker.KubeletEnvironment, "/var/lib/kubelet/pki/",
	onworker.LoadBalancerDir, onworker.LoadBalancerStateLink, "/var/lib/private/",
	software.Dir, onworker.UnitDir + onworker.KubeletUnit, unit.Path, unit.ServiceAddressPath, onworker.UnitDir + onworker.BootstrapUnit, kubeletDropIn, containerdDropIn, onworker.SentinelDir,
}

// ReservedPath says whether a file is the controller's.
func ReservedPath(path string) bool {
	for _, own := range reserved {
		if path == own || strings.HasSuffix(own, "/") && strings.HasPrefix(path, own) {
			return true
		}
	}
	return false
}

// OwnedUnit says whether a unit comes with the bootstrap data.
func OwnedUnit(name string) bool {
	return name == onworker.KubeletUnit || name == unit.Name || name == onworker.BootstrapUnit
}

// addFiles adds the user's files. It comes last, so that none replaces one of ours.
func addFiles(d *document, in *Input) error {
	written := map[string]bool{}
	for _, file := range d.WriteFiles {
		written[file.Path] = true
	}
	for i, file := range in.Spec.Files {
		field := fmt.Sprintf("files[%d]", i)
		if err := CheckPath(file.Path); err != nil {
			return invalid(field+".path", file.Path, err)
		}
		if ReservedPath(file.Path) {
			return invalid(field+".path", file.Path, errors.New("is a file of the bootstrap provider; choose another"))
		}
		if written[file.Path] {
			return invalid(field+".path", file.Path, errors.New("is in the list already; choose another"))
		}
		written[file.Path] = true
		rendered, err := in.file(field, file)
		if err != nil {
			return err
		}
		d.WriteFiles = append(d.WriteFiles, rendered)
	}
	return nil
}

func (in *Input) file(field string, file bootstrapv1.File) (writeFile, error) {
	rendered := writeFile{Path: file.Path, Owner: file.Owner, Permissions: file.Permissions, Encoding: encodingBase64}
	if rendered.Owner == "" {
		rendered.Owner = "root:root"
	}
	if rendered.Permissions == "" {
		rendered.Permissions = "0644"
	}
	if !owner.MatchString(rendered.Owner) {
		return rendered, invalid(field+".owner", file.Owner, fmt.Errorf("must be a user and a group, for example root:root"))
	}
	if !octal.MatchString(rendered.Permissions) {
		return rendered, invalid(field+".permissions", file.Permissions, fmt.Errorf("must be four octal digits, for example 0644"))
	}
	// The owner may be a user that the document adds.
	rendered.Defer = rendered.Owner != "root:root"

	var content []byte
	switch {
	case file.Content != nil && file.ContentFrom == nil:
		content = []byte(*file.Content)
	case file.ContentFrom != nil && file.Content == nil:
		source := file.ContentFrom.Secret
		var ok bool
		if content, ok = in.Contents[source]; !ok {
			return rendered, fmt.Errorf("spec.%s.contentFrom.secret: Secret %s with key %s was not read", field, source.Name, source.Key)
		}
	default:
		return rendered, fmt.Errorf("spec.%s: exactly one of content and contentFrom must be set", field)
	}
	raw, err := Decode(file.Encoding, content)
	if err != nil {
		return rendered, fmt.Errorf("spec.%s: the content of %q: %w", field, file.Path, err)
	}
	if file.Encoding == bootstrapv1.GzipBase64 {
		rendered.Encoding = encodingGzipBase64
	}
	rendered.Content = base64.StdEncoding.EncodeToString(raw)
	return rendered, nil
}

// Decode decodes the base64 of a content, and checks that it is well-formed for the machine. Compressed content stays
// compressed.
func Decode(encoding bootstrapv1.Encoding, content []byte) ([]byte, error) {
	if encoding == "" {
		return content, nil
	}
	if encoding != bootstrapv1.Base64 && encoding != bootstrapv1.GzipBase64 {
		return nil, fmt.Errorf("encoding %q is not supported; use %s or %s", encoding, bootstrapv1.Base64, bootstrapv1.GzipBase64)
	}
	raw, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(string(content)), ""))
	if err != nil {
		return nil, fmt.Errorf("is not base64: %w", err)
	}
	if encoding == bootstrapv1.GzipBase64 {
		if _, err := gzip.NewReader(bytes.NewReader(raw)); err != nil {
			return nil, fmt.Errorf("is not gzip in base64: %w", err)
		}
	}
	return raw, nil
}
