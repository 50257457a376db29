// Package hosttest has hosts for tests: Simulated understands what the packages in hosts run, and Liar answers whatever a
// test wants.
package hosttest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/cloudinit"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/records"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/ssh"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/onworker"
)

// Simulated is a host that understands the commands of the packages in hosts, and no others. The lab's tests use real hosts;
// this one can be cut off after any command.
type Simulated struct {
	t *testing.T
	// Files are the files of the host; folders need not be made.
	Files map[string]string
	// Units are those that systemd has loaded. Users, Tasks and Mounts are there or not; Locked are users without a password.
	Units  map[string]*hosts.UnitState
	Users  map[string]bool
	Locked map[string]bool
	Tasks  []string
	Images []string
	Mounts []string
	// Links are network devices.
	Links []string
	// Tables and Chains are those of nftables; iptables is what iptables-save prints.
	Tables, Chains []string
	iptables       string
	name           string
	// containerd is the settings that containerd goes on with: those of its start.
	containerd string
	// bare is true for a host that has no containerd of its own; Bring is what bootstrap data do then.
	bare  bool
	Bring func(*Simulated)
	// Succeed says how cloud-init ends.
	Succeed bool
	// Starts counts runs of cloud-init.
	Starts int
	// Sticky are paths that rm does not remove and sed does not change, mounts that stay, and units that do not stop.
	Sticky map[string]bool
	// CutAfter is after how many commands the connection is gone; never for 0.
	CutAfter int
	// Ran are the commands that it ran, NoSudo is true when its user may not use sudo.
	Ran    []string
	NoSudo bool
	// Disks are what stat says of the file systems of folders, where that is not plenty; empty for no such folder.
	Disks map[string]string
	// Answers are those to commands that it does not decide on.
	Answers map[string]ssh.Result
}

// New is a host with a containerd of its own.
func New(t *testing.T) *Simulated {
	s := &Simulated{
		t: t, name: "host-1", Succeed: true, Users: map[string]bool{"root": true, "admin": true}, Locked: map[string]bool{}, Units: map[string]*hosts.UnitState{
			"containerd.service": {Loaded: true, Active: "active", Enabled: true},
		},
		Files: map[string]string{
			"/etc/hostname": "host-1\n", "/etc/hosts": "127.0.1.1 host-1\n", "/usr/bin/cloud-init": "", "/usr/bin/systemctl": "", "/usr/bin/ctr": "", "/usr/bin/ip": "", "/usr/bin/nft": "", "/usr/bin/iptables-save": "", "/usr/bin/containerd": "", "/usr/bin/sshd": "",
			"/home/admin/.ssh/authorized_keys": "ssh-ed25519 " + AdminKey + " admin\n", "/etc/chrony/chrony.conf": "pool ours\n",
			"/var/lib/cloud/instance/sem/config_ssh": "done", "/var/lib/cloud/data/instance-id": "ours", cloudinit.SeedDir + "/meta-data": "instance-id: ours",
			ContainerdMetadata: "images",
			"/etc/motd":        "hello\n", "/etc/os-release": "PRETTY_NAME=\"Debian GNU/Linux 12\"\nID=debian\n", "/proc/meminfo": "MemTotal:       8032000 kB\n",
			"/proc/uptime": "100000.00 350000.00\n", "/run/systemd/system" + "/.kept": "",
		},
		Mounts: []string{"/var/lib/kubelet"}, Links: []string{"eth0"},
		Images: []string{"registry.k8s.io/pause:3.10"}, Tables: []string{"inet firewall"}, Chains: []string{"inet firewall INPUT"},
		Sticky: map[string]bool{}, Answers: map[string]ssh.Result{},
	}
	s.containerd = s.containerdSettings()
	return s
}

// readByContainerd matches the program, its settings and its unit.
var readByContainerd = regexp.MustCompile(`^/etc/containerd/|/containerd\.service\.d/|^/etc/systemd/system/containerd\.service$|^/etc/kok/proxy\.env$|/containerd$`)

func (s *Simulated) containerdSettings() string {
	settings := maps.Clone(s.Files)
	maps.DeleteFunc(settings, func(file, _ string) bool {
		return !readByContainerd.MatchString(file) || strings.HasPrefix(file, records.Dir)
	})
	return fmt.Sprint(settings)
}

const (
	// ContainerdDir is containerd's folder.
	ContainerdDir = "/var/lib/containerd"
	// ContainerdMetadata is in it once containerd has run.
	ContainerdMetadata = ContainerdDir + "/io.containerd.metadata.v1.bolt/meta.db"
	// tasksDir has a folder for each container that runs.
	tasksDir = "/run/containerd/io.containerd.runtime.v2.task/k8s.io"
)

var errCut = errors.New("the connection is cut")

// Run runs a command; the host may be cut off.
func (s *Simulated) Run(ctx context.Context, command ssh.Command) (ssh.Result, error) {
	if err := ctx.Err(); err != nil {
		return ssh.Result{}, err
	}
	if s.CutAfter > 0 && len(s.Ran) >= s.CutAfter {
		return ssh.Result{}, errCut
	}
	args := command.Args
	if args[0] == "sudo" {
		if s.NoSudo {
			return ssh.Result{ExitStatus: 1, Stderr: []byte("sudo: a password is required\n")}, nil
		}
		args = args[3:]
	}
	s.Ran = append(s.Ran, strings.Join(args, " "))
	if answer, ok := s.Answers[strings.Join(args, " ")]; ok {
		return answer, nil
	}
	out, status := s.execute(args, string(command.Stdin))
	return ssh.Result{Stdout: []byte(out), ExitStatus: status}, nil
}

// There reports whether a file, a folder or a mount exists.
func (s *Simulated) There(file string) bool {
	if slices.Contains(s.Mounts, file) {
		return true
	}
	for name := range s.Files {
		if file == "/" || name == file || strings.HasPrefix(name, file+"/") {
			return true
		}
	}
	return false
}

func (s *Simulated) hasProgram(name string) bool {
	return s.There("/usr/bin/"+name) || s.There("/usr/local/bin/"+name)
}

// Remove removes a file or a folder, unless it is sticky.
func (s *Simulated) Remove(file string) {
	for name := range maps.Clone(s.Files) {
		if (name == file || strings.HasPrefix(name, file+"/")) && !s.Sticky[file] {
			delete(s.Files, name)
		}
	}
}

// operands are the arguments after "--".
func operands(args []string) []string { return args[slices.Index(args, "--")+1:] }

func (s *Simulated) execute(args []string, stdin string) (string, int) {
	switch args[0] {
	case "true", "modprobe", "journalctl":
		return "", 0
	case software.Program:
		return s.kokSoftware(args[1:])
	case "head":
		return s.Files[args[3]], 0
	case "nft":
		return s.nft(args[1:])
	case "iptables-save":
		return s.iptables, 0
	case "iptables-restore":
		if !s.Sticky["iptables"] {
			s.iptables = ""
		}
		return "", 0
	case "ip":
		return s.ip(args[1:])
	case "find":
		return s.find(args[1:])
	case "cat":
		if args[1] == "/proc/self/mountinfo" {
			text := ""
			for i, mount := range s.Mounts {
				text += fmt.Sprintf("%d 1 0:5 / %s rw - tmpfs tmpfs rw\n", i+30, strings.ReplaceAll(mount, " ", `\040`))
			}
			return text, 0
		}
		return s.Files[args[1]], 0
	case "grep":
		return s.grep(args[1:])
	case "tail":
		return "Cloud-init starts\ntoken: abcdef.0123456789abcdef\nit broke\n", 0
	case "install":
		if last := args[len(args)-1]; args[len(args)-2] == "/dev/null" {
			s.Files[last] = ""
		}
		return "", 0
	case "dd":
		s.Files[strings.TrimPrefix(args[1], "of=")] = stdin
		return "", 0
	case "mv":
		s.Files[args[3]] = s.Files[args[2]]
		delete(s.Files, args[2])
		return "", 0
	case "cp":
		return s.copy("", args)
	case "env":
		return s.copy(strings.TrimPrefix(args[1], "--chdir="), args[2:])
	case "rm":
		for _, file := range operands(args) {
			if file == "/run/containerd" && len(s.Tasks) > 0 {
				s.t.Error("containers run, and nothing shows it any more")
			}
			if s.Remove(file); file == ContainerdDir && !s.There(file) {
				s.Images = nil
			}
		}
		return "", 0
	case "umount":
		point := args[len(args)-1]
		if s.Sticky[point] {
			return "", 32
		}
		s.Mounts = slices.DeleteFunc(s.Mounts, func(mount string) bool { return mount == point })
		return "", 0
	case "uname":
		return map[string]string{"-n": s.name, "-m": "x86_64", "-r": "6.1.0"}[args[1]] + "\n", 0
	case "nproc":
		return "4\n", 0
	case "stat":
		return s.stat(args[3:])
	case "getent":
		if !s.Users[args[2]] {
			return "", 2
		}
		return args[2] + ":x:1000:1000:,,,:" + homeOf(args[2]) + ":/bin/bash\n", 0
	case "passwd":
		return args[2] + " " + map[bool]string{true: "L", false: "P"}[s.Locked[args[2]]] + " 2026-01-01 0 99999 7 -1\n", 0
	case "sshd":
		return "port 22\nauthorizedkeysfile .ssh/authorized_keys /etc/ssh/keys/%u\n", 0
	case "usermod":
		delete(s.Locked, args[len(args)-1])
		return "", 0
	case "userdel":
		delete(s.Users, args[len(args)-1])
		delete(s.Locked, args[len(args)-1])
		s.Remove(homeOf(args[len(args)-1]))
		return "", 0
	case "sed":
		return s.sed(args[3:])
	case "hostname":
		s.name = args[2]
		return "", 0
	case "ctr":
		return s.ctr(args)
	case "systemctl":
		return s.systemctl(args[1:])
	case "cloud-init":
		return s.cloudInit(args[1:])
	}
	s.t.Errorf("the host knows no command %q", args)
	return "", 127
}

// grep prints what matches in the first line with a match.
func (s *Simulated) grep(args []string) (string, int) {
	expression := regexp.MustCompile(args[3])
	for line := range strings.Lines(s.Files[args[4]]) {
		if found := expression.FindAllString(strings.TrimRight(line, "\n"), -1); len(found) > 0 {
			return strings.Join(found, "\n") + "\n", 0
		}
	}
	return "", 1
}

func homeOf(user string) string { return "/home/" + user }

// sed deletes lines.
func (s *Simulated) sed(args []string) (string, int) {
	file := args[len(args)-1]
	var lines []string
	for line := range strings.Lines(s.Files[file]) {
		if !slices.ContainsFunc(args[:len(args)-2], func(expression string) bool {
			key := strings.TrimSuffix(strings.TrimPrefix(expression, `--expression=\,`), ",d")
			return strings.Contains(line, key)
		}) {
			lines = append(lines, line)
		}
	}
	if !s.Sticky[file] {
		s.Files[file] = strings.Join(lines, "")
	}
	return "", 0
}

func (s *Simulated) stat(folders []string) (text string, status int) {
	for _, folder := range folders {
		numbers, said := s.Disks[folder]
		switch {
		case !said:
			numbers = "1000000 4096 500000 1000000"
		case numbers == "":
			status = 1
			continue
		}
		text += folder + " " + numbers + "\n"
	}
	return text, status
}

func (s *Simulated) find(args []string) (string, int) {
	found, status := "", 0
	switch {
	case slices.Contains(args, "-name"):
		for i, arg := range args {
			if arg == "-name" && s.hasProgram(args[i+1]) {
				found += "/usr/bin/" + args[i+1] + "\x00"
			}
		}
	case args[0] == tasksDir:
		for _, task := range s.Tasks {
			found += tasksDir + "/" + task + "\x00"
		}
	case slices.Contains(args, "-delete"):
		if s.Remove(args[0]); args[0] == ContainerdDir {
			s.Images = nil
		}
	case slices.Contains(args, "-not"):
		pruned, left := "", ""
		if i := slices.Index(args, "-prune"); i >= 0 {
			pruned, left = args[i-1]+"/", strings.TrimSuffix(args[len(args)-3], "*")
		}
		for name := range s.Files {
			if strings.HasPrefix(name, args[0]+"/") && (pruned == "" || !strings.HasPrefix(name, pruned) && !strings.HasPrefix(name, left)) {
				return name + "\x00", 0
			}
		}
	case slices.Contains(args, "-mindepth"):
	default:
		for _, file := range args[:slices.Index(args, "-maxdepth")] {
			if s.There(file) || file == tasksDir && len(s.Tasks) > 0 {
				found += file + "\x00"
			} else {
				status = 1
			}
		}
	}
	return found, status
}

func (s *Simulated) ip(args []string) (string, int) {
	if args[0] == "link" {
		s.Links = slices.DeleteFunc(s.Links, func(link string) bool { return link == args[2] && !s.Sticky[link] })
		return "", 0
	}
	described := []map[string]any{{"ifname": "lo"}}
	for _, link := range s.Links {
		described = append(described, map[string]any{"ifname": link})
	}
	text, err := json.Marshal(described)
	if err != nil {
		s.t.Error(err)
	}
	return string(text), 0
}

// nft knows tables, by family and name, and their chains, with the table before the name.
func (s *Simulated) nft(args []string) (string, int) {
	if args[0] == "delete" {
		name := args[2] + " " + args[3]
		if !slices.Contains(s.Tables, name) {
			return "", 1
		}
		s.Tables = slices.DeleteFunc(s.Tables, func(table string) bool { return table == name && !s.Sticky[name] })
		return "", 0
	}
	answer := []map[string]any{{"metainfo": map[string]any{"json_schema_version": 1}}}
	for _, table := range s.Tables {
		family, name, _ := strings.Cut(table, " ")
		answer = append(answer, map[string]any{"table": map[string]any{"family": family, "name": name, "handle": 1}})
	}
	if args[2] == "chains" {
		answer = answer[:1]
		for _, chain := range s.Chains {
			fields := strings.Fields(chain)
			answer = append(answer, map[string]any{"chain": map[string]any{"family": fields[0], "table": fields[1], "name": fields[2], "handle": 1}})
		}
	}
	text, err := json.Marshal(map[string]any{"nftables": answer})
	if err != nil {
		s.t.Error(err)
	}
	return string(text), 0
}

func (s *Simulated) copy(in string, args []string) (string, int) {
	paths := operands(args)
	to := paths[len(paths)-1]
	for _, from := range paths[:len(paths)-1] {
		target := to
		if slices.Contains(args, "--parents") {
			target = to + "/" + from
		}
		for name, content := range maps.Clone(s.Files) {
			if below, ok := strings.CutPrefix(name, in+from); ok && (below == "" || below[0] == '/') {
				s.Files[target+below] = content
			}
		}
	}
	return "", 0
}

func (s *Simulated) ctr(args []string) (string, int) {
	if !s.hasProgram("ctr") {
		return "", 127
	}
	if state := s.Units[onworker.ContainerdUnit]; state == nil || !state.Runs() {
		return "", 1
	}
	switch strings.Join(args[3:5], " ") {
	case "images list":
		return strings.Join(s.Images, "\n"), 0
	case "images remove":
		s.Images = slices.DeleteFunc(s.Images, func(image string) bool { return slices.Contains(args[6:], image) && !s.Sticky[image] })
	case "containers list":
		return strings.Join(s.Tasks, "\n"), 0
	case "tasks delete":
		s.Tasks = nil
	}
	return "", 0
}

func (s *Simulated) systemctl(args []string) (string, int) {
	last := args[len(args)-1]
	switch args[0] {
	case "show":
		text := ""
		for _, name := range operands(args) {
			if strings.Contains(name, "@.") { // A template is no unit.
				return text, 1
			}
			state := s.Units[name]
			if state == nil {
				state = &hosts.UnitState{Active: "inactive"}
			}
			text += fmt.Sprintf("LoadState=%s\nActiveState=%s\nSubState=%s\nUnitFileState=%s\nNRestarts=%d\nExecMainStartTimestampMonotonic=%d\n\n",
				map[bool]string{true: "loaded", false: "not-found"}[state.Loaded], state.Active, state.Sub,
				map[bool]string{true: "enabled"}[state.Enabled], state.Restarts, state.Started.Microseconds())
		}
		return text, 0
	case "start", "restart":
		if last == onworker.ContainerdUnit {
			s.Units[last].Active, s.containerd = "active", s.containerdSettings()
		}
		if last == cloudinit.Unit {
			for _, file := range []string{cloudinit.SeedDir + "/user-data", cloudinit.SeedDir + "/meta-data", cloudinit.ConfigFile, onworker.KubeletEnvironment, cloudinit.UnitFile} {
				if s.Files[file] == "" {
					s.t.Errorf("cloud-init starts without %s", file)
				}
			}
			s.Starts++
			s.runCloudInit()
		}
	case "stop":
		for name, state := range s.Units {
			if matches, err := path.Match(last, name); err == nil && matches && !s.Sticky[name] {
				state.Active = "inactive"
			}
		}
		s.forgetContainerd()
	case "disable":
		for name, state := range s.Units {
			if name == last || strings.HasPrefix(name, strings.TrimSuffix(last, ".service")) && strings.Contains(last, "@.") {
				state.Enabled = false
			}
		}
	case "daemon-reload":
		for name := range maps.Clone(s.Units) {
			template, _, isInstance := strings.Cut(name, "@")
			if !s.There(cloudinit.UnitFile) && name == cloudinit.Unit || name == "kubelet.service" && !s.There("/etc/systemd/system/kubelet.service") ||
				isInstance && !s.There("/etc/systemd/system/"+template+"@.service") {
				if !s.Units[name].Runs() {
					delete(s.Units, name)
				}
			}
		}
		s.forgetContainerd()
		if s.There(cloudinit.UnitFile) && s.Units[cloudinit.Unit] == nil {
			s.Units[cloudinit.Unit] = &hosts.UnitState{Loaded: true, Active: "inactive"}
		}
	}
	return "", 0
}

// forgetContainerd is what systemd does with a unit whose file is gone.
func (s *Simulated) forgetContainerd() {
	unit := s.Units[onworker.ContainerdUnit]
	if !s.bare || unit == nil || s.hasProgram("containerd") || s.There("/etc/systemd/system/containerd.service") {
		return
	}
	if unit.Loaded = false; !unit.Runs() {
		delete(s.Units, onworker.ContainerdUnit)
		s.containerd = ""
	}
}

// runCloudInit does what the bootstrap data of these tests say.
func (s *Simulated) runCloudInit() {
	s.Units[cloudinit.Unit] = &hosts.UnitState{Loaded: true, Active: "active"}
	s.cloudInit([]string{"clean"})
	s.Files["/var/lib/cloud/instance/user-data.txt"] = s.Files[cloudinit.SeedDir+"/user-data"]
	s.Files["/run/cloud-init/status.json"] = "{}"
	s.Files["/etc/systemd/system/kubelet.service"], s.Files["/etc/motd"] = "kubelet", "changed"
	s.Files["/etc/systemd/system/watch@.service"] = "watch"
	s.Files["/usr/local/bin/kubelet"], s.Files["/usr/local/bin/kubelet.part"] = "theirs", "the"
	if s.Bring != nil {
		s.Bring(s)
	} else {
		s.Files["/usr/bin/ctr"] = "theirs"
	}
	s.Files["/etc/systemd/system/containerd.service.d/90-kok-proxy.conf"] = "EnvironmentFile=/etc/kok/proxy.env"
	s.Files["/etc/hostname"], s.Files["/etc/hosts"], s.name = "worker-1\n", "127.0.1.1 worker-1\n", "worker-1"
	s.Users["deploy"], s.Locked["deploy"], s.Locked["admin"] = true, true, true
	s.Files["/home/admin/.ssh/authorized_keys"] += "ssh-ed25519 " + TenantKey + " tenant\n"
	s.Files["/home/deploy/.ssh/authorized_keys"] = "ssh-ed25519 " + TenantKey + " tenant\n"
	s.Files["/etc/ssh/keys/deploy"] = "ssh-ed25519 " + TenantKey + " tenant\n"
	s.Files["/etc/sudoers.d/90-cloud-init-users"] = "deploy ALL=(ALL) NOPASSWD:ALL\n"
	s.Files["/etc/chrony/chrony.conf.dist"], s.Files["/etc/chrony/chrony.conf"] = s.Files["/etc/chrony/chrony.conf"], "server theirs\n"
	s.Files["/etc/apt/sources.list.d/theirs.list"], s.Files["/etc/apt/trusted.gpg.d/theirs.gpg"] = "deb https://theirs.example.com ./", "key"
	s.Files["/etc/apt/apt.conf.d/90cloud-init-aptproxy"] = "Acquire::http::Proxy \"http://theirs.example.com\";"
	if !s.Succeed {
		return
	}
	s.Units["watch@disk.service"] = &hosts.UnitState{Loaded: true, Active: "active", Enabled: true}
	s.Units["kubelet.service"] = &hosts.UnitState{Loaded: true, Active: "active", Enabled: true}
	s.Files["/var/lib/kubelet/config.yaml"], s.Files["/etc/kubernetes/kubelet.conf"] = "", ""
	s.Files["/etc/cni/net.d/10-flannel.conflist"], s.Files[onworker.SentinelFile] = "", "success"
	s.Tasks = []string{"0123abc", "4567def"}
	s.Images = append(s.Images, "registry.example.com/private/app:1", "sha256:0123")
	s.Units[onworker.ContainerdUnit].Active, s.containerd = "active", s.containerdSettings()
	s.Links = append(s.Links, "cni0", "flannel.1")
	s.Tables = append(s.Tables, "ip kube-proxy", "ip6 kube-proxy", "ip flannel-ipv4")
	s.iptables = "*filter\n:KUBE-FIREWALL - [0:0]\nCOMMIT\n"
	s.Mounts = append(s.Mounts, "/var/lib/kubelet/pods/1/volumes/a b", "/data")
}

func (s *Simulated) cloudInit(args []string) (string, int) {
	switch args[0] {
	case "status":
		if s.Succeed {
			return `{"status": "done", "detail": "DataSourceNoCloud", "errors": []}`, 0
		}
		return `{"status": "error", "detail": "x", "errors": ["('scripts-user', RuntimeError('Runparts: 1 failures'))"]}`, 1
	case "clean":
		for name := range maps.Clone(s.Files) {
			if strings.HasPrefix(name, cloudinit.Dir+"/") && !strings.HasPrefix(name, cloudinit.Dir+"/seed/") {
				delete(s.Files, name)
			}
		}
	}
	return "", 0
}

// Plain is everything about a host that a machine must leave as it was.
func (s *Simulated) Plain() string {
	units := map[string]hosts.UnitState{}
	for name, state := range s.Units {
		units[name] = *state
	}
	return fmt.Sprint(s.containerd, s.Links, s.Tables, s.Chains, s.iptables, s.name, s.Files, units, s.Users, s.Locked, s.Tasks, s.Images, slices.DeleteFunc(slices.Clone(s.Mounts), func(m string) bool { return m == "/data" }))
}
