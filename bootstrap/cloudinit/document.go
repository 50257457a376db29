package cloudinit

import (
	"encoding/base64"
	"encoding/json"
	"fmt"

	"sigs.k8s.io/yaml"
)

// header is the first line of every cloud-config document.
const header = "#cloud-config\n"

// document is a cloud-config (https://cloudinit.readthedocs.io, "Module reference"), as far as we use it.
type document struct {
	Users         []user        `json:"users,omitempty"`
	NTP           *ntp          `json:"ntp,omitempty"`
	APT           *apt          `json:"apt,omitempty"`
	PackageUpdate bool          `json:"package_update,omitempty"`
	Packages      []packageName `json:"packages,omitempty"`
	WriteFiles    []writeFile   `json:"write_files,omitempty"`
	RunCmd        [][]string    `json:"runcmd,omitempty"`
}

type user struct {
	Name              string   `json:"name"`
	Groups            []string `json:"groups,omitempty"`
	Shell             string   `json:"shell,omitempty"`
	Sudo              string   `json:"sudo,omitempty"`
	LockPasswd        bool     `json:"lock_passwd"`
	SSHAuthorizedKeys []string `json:"ssh_authorized_keys,omitempty"`
}

type ntp struct {
	Enabled bool     `json:"enabled"`
	Servers []string `json:"servers,omitempty"`
}

type apt struct {
	HTTPProxy  string               `json:"http_proxy,omitempty"`
	HTTPSProxy string               `json:"https_proxy,omitempty"`
	Sources    map[string]aptSource `json:"sources,omitempty"`
}

type aptSource struct {
	Source string `json:"source"`
	Key    string `json:"key,omitempty"`
}

// packageName is a package with an optional version. cloud-init takes a pair with a version, and a string without.
type packageName struct {
	name, version string
}

// MarshalJSON writes a string or a pair.
func (p packageName) MarshalJSON() ([]byte, error) {
	if p.version == "" {
		return json.Marshal(p.name)
	}
	return json.Marshal([2]string{p.name, p.version})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (p *packageName) UnmarshalJSON(data []byte) error {
	if json.Unmarshal(data, &p.name) == nil {
		return nil
	}
	var pair [2]string
	if err := json.Unmarshal(data, &pair); err != nil {
		return err
	}
	p.name, p.version = pair[0], pair[1]
	return nil
}

// writeFile is one file. Its content is always encoded, so that no content can be taken for YAML.
type writeFile struct {
	Path        string `json:"path"`
	Owner       string `json:"owner,omitempty"`
	Permissions string `json:"permissions"`
	Encoding    string `json:"encoding"`
	Content     string `json:"content"`
	// Defer writes the file after users were made and packages installed.
	Defer bool `json:"defer,omitempty"`
}

const (
	encodingBase64     = "b64"
	encodingGzipBase64 = "gz+b64"
)

// ownFile is a file of ours.
func ownFile(path, permissions string, content []byte) writeFile {
	return writeFile{Path: path, Permissions: permissions, Encoding: encodingBase64, Content: base64.StdEncoding.EncodeToString(content)}
}

func (d *document) marshal() ([]byte, error) {
	body, err := yaml.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("marshal the cloud-config: %w", err)
	}
	return append([]byte(header), body...), nil
}

// unmarshal reads a document that Render wrote.
func unmarshal(data []byte) (*document, error) {
	d := &document{}
	if err := yaml.UnmarshalStrict(data, d); err != nil {
		return nil, fmt.Errorf("read the cloud-config: %w", err)
	}
	return d, nil
}
