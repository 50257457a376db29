// Package footprint reads from bootstrap data which files and users they add to a host. It asks no host.
package footprint

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"path"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/onworker"
)

// Footprint has the files and users that bootstrap data name.
type Footprint struct {
	Files []string
	Users []User
}

// User is a user that cloud-init makes, or changes if it exists.
type User struct {
	Name string
	// Keys are the SSH keys that the user gets, in base64.
	Keys []string
}

// sudoersFile has the sudo rules of all users of a cloud-config (cloud-init, ci_sudoers_fn).
const sudoersFile = "/etc/sudoers.d/90-cloud-init-users"

// ClockFiles are the settings of the programs that cloud-init's module ntp knows. It keeps earlier ones as *.dist.
var ClockFiles = []string{
	"/etc/systemd/timesyncd.conf.d/cloud-init.conf", "/etc/chrony/chrony.conf", "/etc/chrony.conf", "/etc/ntpsec/ntp.conf", "/etc/ntp.conf",
}

// aptFiles are files of cloud-init's module apt_configure, besides a file and a key for each source.
var aptFiles = []string{
	"/etc/apt/apt.conf.d/90cloud-init-aptproxy", "/etc/apt/apt.conf.d/94cloud-init-config", "/etc/apt/sources.list",
}

// cloudConfig is the part of a cloud-config that names files and users.
type cloudConfig struct {
	WriteFiles []struct {
		Path     string `json:"path"`
		Encoding string `json:"encoding"`
		Content  string `json:"content"`
	} `json:"write_files"`
	Users             []any `json:"users"`
	SSHAuthorizedKeys any   `json:"ssh_authorized_keys"`
	NTP               any   `json:"ntp"`
	APT               *struct {
		Sources map[string]struct {
			Filename string `json:"filename"`
		} `json:"sources"`
	} `json:"apt"`
}

// Of reads a cloud-config. It does not see what a script does, or data of another format; a clean-up still removes
// everything that a node has.
func Of(userData []byte) Footprint {
	config := cloudConfig{}
	found := Footprint{}
	if yaml.Unmarshal(userData, &config) != nil {
		return found
	}
	for _, file := range config.WriteFiles {
		found.addFile(file.Path)
		if file.Path == onworker.DownloadsFile {
			found.addDownloads(file.Encoding, file.Content)
		}
	}
	for _, entry := range config.Users {
		found.addUser(entry)
	}
	if len(config.Users) > 0 {
		found.addFile(sudoersFile)
	}
	if config.SSHAuthorizedKeys != nil { // Keys without a user are for root and the default user.
		found.addUser(map[string]any{"name": "root", "ssh_authorized_keys": config.SSHAuthorizedKeys})
	}
	if config.NTP != nil {
		for _, file := range ClockFiles {
			found.addFile(file)
			found.addFile(file + ".dist")
		}
	}
	if config.APT != nil {
		for _, file := range aptFiles {
			found.addFile(file)
		}
		for _, name := range slices.Sorted(maps.Keys(config.APT.Sources)) {
			found.addSource(name, config.APT.Sources[name].Filename)
		}
	}
	return found
}

// addFile adds an absolute path. It leaves out the files of kok-software, which removes them itself.
func (f *Footprint) addFile(file string) {
	if clean := path.Clean(file); path.IsAbs(clean) && !strings.HasPrefix(clean, software.Dir) && !strings.ContainsRune(clean, 0) && !slices.Contains(f.Files, clean) {
		f.Files = append(f.Files, clean)
	}
}

// addDownloads adds the files that are listed in onworker.DownloadsFile.
func (f *Footprint) addDownloads(encoding, content string) {
	list := []byte(content)
	if encoding == "b64" {
		list, _ = base64.StdEncoding.DecodeString(content)
	}
	var files []string
	if json.Unmarshal(list, &files) != nil {
		return // Bootstrap data of another provider may use the name for something else.
	}
	for _, file := range files {
		f.addFile(file)
	}
}

// addSource adds the list of a source of packages, and its key for all sources or for this one.
func (f *Footprint) addSource(name, filename string) {
	if filename == "" {
		filename = name
	}
	list := filename
	if !path.IsAbs(list) {
		list = "/etc/apt/sources.list.d/" + list
	}
	f.addFile(strings.TrimSuffix(list, ".list") + ".list")
	key := strings.TrimSuffix(path.Base(filename), path.Ext(filename)) + ".gpg"
	f.addFile("/etc/apt/trusted.gpg.d/" + key)
	f.addFile("/etc/apt/cloud-init.gpg.d/" + key)
}

func (f *Footprint) addUser(entry any) {
	name, _ := entry.(string)
	var keys []string
	if fields, ok := entry.(map[string]any); ok {
		name, _ = fields["name"].(string)
		keys = append(keysOf(fields["ssh_authorized_keys"]), keysOf(fields["ssh-authorized-keys"])...)
	}
	if !isUserName(name) || name == "default" {
		return
	}
	if i := slices.IndexFunc(f.Users, func(a User) bool { return a.Name == name }); i >= 0 {
		f.Users[i].Keys = append(f.Users[i].Keys, keys...)
		return
	}
	f.Users = append(f.Users, User{name, keys})
}

// keysOf returns the base64 parts of SSH keys. cloud-init accepts one key, a list, or keys with
// names.
func keysOf(value any) []string {
	var keys []string
	switch value := value.(type) {
	case string:
		for _, field := range strings.Fields(value) {
			if isKey(field) {
				return []string{field}
			}
		}
	case []any:
		for _, entry := range value {
			keys = append(keys, keysOf(entry)...)
		}
	case map[string]any:
		for _, entry := range value {
			keys = append(keys, keysOf(entry)...)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// isKey reports whether a field of a line of authorized_keys is the key: base64 of a blob that begins with the length
// of its type's name (RFC 4253, section 6.6).
func isKey(field string) bool {
	blob, err := base64.StdEncoding.DecodeString(field)
	return err == nil && len(blob) > 16 && blob[0] == 0 && blob[1] == 0 && blob[2] == 0
}

// isUserName reports whether useradd accepts a name, and does not take it for an option.
func isUserName(name string) bool {
	return name != "" && len(name) <= 32 && !strings.HasPrefix(name, "-") && !strings.ContainsAny(name, ":/,\n\x00 ")
}
