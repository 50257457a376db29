package hosts

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
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/ssh"
)

// simulated is a host that understands the commands of this package, and no others. The lab's tests use
// real hosts; this one can be cut off after any command.
type simulated struct {
	t *testing.T
	// files are the files of the host; folders need not be made.
	files map[string]string
	// units are those that systemd has loaded; users, tasks and mounts are there or not, passwords locked or not.
	units  map[string]*unitState
	users  map[string]bool
	locked map[string]bool
	tasks  []string
	images []string
	mounts []string
	// links are network devices.
	links []string
	// tables and chains are those of nftables; iptables is what iptables-save prints.
	tables, chains []string
	iptables       string
	name           string
	// containerd is the settings that containerd goes on with: those of its start.
	containerd string
	// bare is true for a host that has no containerd of its own; bring is what bootstrap data do then.
	bare  bool
	bring func(*simulated)
	// succeed says how cloud-init ends.
	succeed bool
	// starts counts runs of cloud-init.
	starts int
	// sticky are paths that rm does not remove and sed does not change, mounts that stay, and units that do not stop.
	sticky map[string]bool
	// cutAfter commands the connection is gone; never for 0.
	cutAfter int
	ran      []string
	noSudo   bool
	// disks are what stat says of the file systems of folders, where that is not plenty; empty for no such folder.
	disks   map[string]string
	answers map[string]ssh.Result
}

func newSimulated(t *testing.T) *simulated {
	s := &simulated{
		t: t, name: "host-1", succeed: true, users: map[string]bool{"root": true, "admin": true}, locked: map[string]bool{}, units: map[string]*unitState{
			"containerd.service": {loaded: true, active: "active", enabled: true},
		},
		files: map[string]string{
			"/etc/hostname": "host-1\n", "/etc/hosts": "127.0.1.1 host-1\n", "/usr/bin/cloud-init": "", "/usr/bin/systemctl": "", "/usr/bin/ctr": "", "/usr/bin/ip": "", "/usr/bin/nft": "", "/usr/bin/iptables-save": "", "/usr/bin/containerd": "", "/usr/bin/sshd": "",
			"/home/admin/.ssh/authorized_keys": "ssh-ed25519 " + adminKey + " admin\n", "/etc/chrony/chrony.conf": "pool ours\n",
			"/var/lib/cloud/instance/sem/config_ssh": "done", "/var/lib/cloud/data/instance-id": "ours", seedDir + "/meta-data": "instance-id: ours",
			containerdMetadata: "images",
			"/etc/motd":        "hello\n", "/etc/os-release": "PRETTY_NAME=\"Debian GNU/Linux 12\"\nID=debian\n", "/proc/meminfo": "MemTotal:       8032000 kB\n",
			"/proc/uptime": "100000.00 350000.00\n", bootedDir + "/.kept": "",
		},
		mounts: []string{"/var/lib/kubelet"}, links: []string{"eth0"},
		images: []string{"registry.k8s.io/pause:3.10"}, tables: []string{"inet firewall"}, chains: []string{"inet firewall INPUT"},
		sticky: map[string]bool{}, answers: map[string]ssh.Result{},
	}
	s.containerd = s.containerdSettings()
	return s
}

func (s *simulated) containerdSettings() string {
	settings := maps.Clone(s.files)
	maps.DeleteFunc(settings, func(file, _ string) bool { return !isContainerds(file) || strings.HasPrefix(file, stateDir) })
	return fmt.Sprint(settings)
}

var errCut = errors.New("the connection is cut")

func (s *simulated) Run(ctx context.Context, command ssh.Command) (ssh.Result, error) {
	if err := ctx.Err(); err != nil {
		return ssh.Result{}, err
	}
	if s.cutAfter > 0 && len(s.ran) >= s.cutAfter {
		return ssh.Result{}, errCut
	}
	args := command.Args
	if args[0] == "sudo" {
		if s.noSudo {
			return ssh.Result{ExitStatus: 1, Stderr: []byte("sudo: a password is required\n")}, nil
		}
		args = args[3:]
	}
	s.ran = append(s.ran, strings.Join(args, " "))
	if answer, ok := s.answers[strings.Join(args, " ")]; ok {
		return answer, nil
	}
	out, status := s.execute(args, string(command.Stdin))
	return ssh.Result{Stdout: []byte(out), ExitStatus: status}, nil
}

func (s *simulated) there(file string) bool {
	if slices.Contains(s.mounts, file) {
		return true
	}
	for name := range s.files {
		if file == "/" || name == file || strings.HasPrefix(name, file+"/") {
			return true
		}
	}
	return false
}

func (s *simulated) hasProgram(name string) bool {
	return s.there("/usr/bin/"+name) || s.there("/usr/local/bin/"+name)
}

func (s *simulated) remove(file string) {
	for name := range maps.Clone(s.files) {
		if (name == file || strings.HasPrefix(name, file+"/")) && !s.sticky[file] {
			delete(s.files, name)
		}
	}
}

// operands are the arguments after "--".
func operands(args []string) []string { return args[slices.Index(args, "--")+1:] }

func (s *simulated) execute(args []string, stdin string) (string, int) {
	switch args[0] {
	case "true", "modprobe", "journalctl":
		return "", 0
	case software.Program:
		return s.kokSoftware(args[1:])
	case "head":
		return s.files[args[3]], 0
	case "nft":
		return s.nft(args[1:])
	case "iptables-save":
		return s.iptables, 0
	case "iptables-restore":
		if !s.sticky["iptables"] {
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
			for i, mount := range s.mounts {
				text += fmt.Sprintf("%d 1 0:5 / %s rw - tmpfs tmpfs rw\n", i+30, strings.ReplaceAll(mount, " ", `\040`))
			}
			return text, 0
		}
		return s.files[args[1]], 0
	case "grep":
		return s.grep(args[1:])
	case "tail":
		return "Cloud-init starts\ntoken: abcdef.0123456789abcdef\nit broke\n", 0
	case "install":
		if last := args[len(args)-1]; args[len(args)-2] == "/dev/null" {
			s.files[last] = ""
		}
		return "", 0
	case "dd":
		s.files[strings.TrimPrefix(args[1], "of=")] = stdin
		return "", 0
	case "mv":
		s.files[args[3]] = s.files[args[2]]
		delete(s.files, args[2])
		return "", 0
	case "cp":
		return s.copy("", args)
	case "env":
		return s.copy(strings.TrimPrefix(args[1], "--chdir="), args[2:])
	case "rm":
		for _, file := range operands(args) {
			if file == "/run/containerd" && len(s.tasks) > 0 {
				s.t.Error("containers run, and nothing shows it any more")
			}
			if s.remove(file); file == containerdDir && !s.there(file) {
				s.images = nil
			}
		}
		return "", 0
	case "umount":
		point := args[len(args)-1]
		if s.sticky[point] {
			return "", 32
		}
		s.mounts = slices.DeleteFunc(s.mounts, func(mount string) bool { return mount == point })
		return "", 0
	case "uname":
		return map[string]string{"-n": s.name, "-m": "x86_64", "-r": "6.1.0"}[args[1]] + "\n", 0
	case "nproc":
		return "4\n", 0
	case "stat":
		return s.stat(args[3:])
	case "getent":
		if !s.users[args[2]] {
			return "", 2
		}
		return args[2] + ":x:1000:1000:,,,:" + homeOf(args[2]) + ":/bin/bash\n", 0
	case "passwd":
		return args[2] + " " + map[bool]string{true: "L", false: "P"}[s.locked[args[2]]] + " 2026-01-01 0 99999 7 -1\n", 0
	case "sshd":
		return "port 22\nauthorizedkeysfile .ssh/authorized_keys /etc/ssh/keys/%u\n", 0
	case "usermod":
		delete(s.locked, args[len(args)-1])
		return "", 0
	case "userdel":
		delete(s.users, args[len(args)-1])
		delete(s.locked, args[len(args)-1])
		s.remove(homeOf(args[len(args)-1]))
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
func (s *simulated) grep(args []string) (string, int) {
	expression := regexp.MustCompile(args[3])
	for line := range strings.Lines(s.files[args[4]]) {
		if found := expression.FindAllString(strings.TrimRight(line, "\n"), -1); len(found) > 0 {
			return strings.Join(found, "\n") + "\n", 0
		}
	}
	return "", 1
}

func homeOf(user string) string { return "/home/" + user }

// sed deletes lines.
func (s *simulated) sed(args []string) (string, int) {
	file := args[len(args)-1]
	var lines []string
	for line := range strings.Lines(s.files[file]) {
		if !slices.ContainsFunc(args[:len(args)-2], func(expression string) bool {
			key := strings.TrimSuffix(strings.TrimPrefix(expression, `--expression=\,`), ",d")
			return strings.Contains(line, key)
		}) {
			lines = append(lines, line)
		}
	}
	if !s.sticky[file] {
		s.files[file] = strings.Join(lines, "")
	}
	return "", 0
}

func (s *simulated) stat(folders []string) (text string, status int) {
	for _, folder := range folders {
		numbers, said := s.disks[folder]
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

func (s *simulated) find(args []string) (string, int) {
	found, status := "", 0
	switch {
	case slices.Contains(args, "-name"):
		for i, arg := range args {
			if arg == "-name" && s.hasProgram(args[i+1]) {
				found += "/usr/bin/" + args[i+1] + "\x00"
			}
		}
	case args[0] == tasksDir:
		for _, task := range s.tasks {
			found += tasksDir + "/" + task + "\x00"
		}
	case slices.Contains(args, "-delete"):
		if s.remove(args[0]); args[0] == containerdDir {
			s.images = nil
		}
	case slices.Contains(args, "-not"):
		pruned, left := "", ""
		if i := slices.Index(args, "-prune"); i >= 0 {
			pruned, left = args[i-1]+"/", strings.TrimSuffix(args[len(args)-3], "*")
		}
		for name := range s.files {
			if strings.HasPrefix(name, args[0]+"/") && (pruned == "" || !strings.HasPrefix(name, pruned) && !strings.HasPrefix(name, left)) {
				return name + "\x00", 0
			}
		}
	case slices.Contains(args, "-mindepth"):
	default:
		for _, file := range args[:slices.Index(args, "-maxdepth")] {
			if s.there(file) || file == tasksDir && len(s.tasks) > 0 {
				found += file + "\x00"
			} else {
				status = 1
			}
		}
	}
	return found, status
}

func (s *simulated) ip(args []string) (string, int) {
	if args[0] == "link" {
		s.links = slices.DeleteFunc(s.links, func(link string) bool { return link == args[2] && !s.sticky[link] })
		return "", 0
	}
	described := []map[string]any{{"ifname": "lo"}}
	for _, link := range s.links {
		described = append(described, map[string]any{"ifname": link})
	}
	text, err := json.Marshal(described)
	if err != nil {
		s.t.Error(err)
	}
	return string(text), 0
}

// nft knows tables, by family and name, and their chains, with the table before the name.
func (s *simulated) nft(args []string) (string, int) {
	if args[0] == "delete" {
		name := args[2] + " " + args[3]
		if !slices.Contains(s.tables, name) {
			return "", 1
		}
		s.tables = slices.DeleteFunc(s.tables, func(table string) bool { return table == name && !s.sticky[name] })
		return "", 0
	}
	answer := []map[string]any{{"metainfo": map[string]any{"json_schema_version": 1}}}
	for _, table := range s.tables {
		family, name, _ := strings.Cut(table, " ")
		answer = append(answer, map[string]any{"table": map[string]any{"family": family, "name": name, "handle": 1}})
	}
	if args[2] == "chains" {
		answer = answer[:1]
		for _, chain := range s.chains {
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

func (s *simulated) copy(in string, args []string) (string, int) {
	paths := operands(args)
	to := paths[len(paths)-1]
	for _, from := range paths[:len(paths)-1] {
		target := to
		if slices.Contains(args, "--parents") {
			target = to + "/" + from
		}
		for name, content := range maps.Clone(s.files) {
			if below, ok := strings.CutPrefix(name, in+from); ok && (below == "" || below[0] == '/') {
				s.files[target+below] = content
			}
		}
	}
	return "", 0
}

func (s *simulated) ctr(args []string) (string, int) {
	if !s.hasProgram("ctr") {
		return "", 127
	}
	if state := s.units[containerdUnit]; state == nil || !state.runs() {
		return "", 1
	}
	switch strings.Join(args[3:5], " ") {
	case "images list":
		return strings.Join(s.images, "\n"), 0
	case "images remove":
		s.images = slices.DeleteFunc(s.images, func(image string) bool { return slices.Contains(args[6:], image) && !s.sticky[image] })
	case "containers list":
		return strings.Join(s.tasks, "\n"), 0
	case "tasks delete":
		s.tasks = nil
	}
	return "", 0
}

func (s *simulated) systemctl(args []string) (string, int) {
	last := args[len(args)-1]
	switch args[0] {
	case "show":
		text := ""
		for _, name := range operands(args) {
			if strings.Contains(name, "@.") { // A template is no unit.
				return text, 1
			}
			state := s.units[name]
			if state == nil {
				state = &unitState{active: "inactive"}
			}
			text += fmt.Sprintf("LoadState=%s\nActiveState=%s\nSubState=%s\nUnitFileState=%s\nNRestarts=%d\nExecMainStartTimestampMonotonic=%d\n\n",
				map[bool]string{true: "loaded", false: "not-found"}[state.loaded], state.active, state.sub,
				map[bool]string{true: "enabled"}[state.enabled], state.restarts, state.started.Microseconds())
		}
		return text, 0
	case "start", "restart":
		if last == containerdUnit {
			s.units[last].active, s.containerd = "active", s.containerdSettings()
		}
		if last == unitName {
			for _, file := range []string{seedDir + "/user-data", seedDir + "/meta-data", cloudConfigFile, kubeletFile, unitFile} {
				if s.files[file] == "" {
					s.t.Errorf("cloud-init starts without %s", file)
				}
			}
			s.starts++
			s.runCloudInit()
		}
	case "stop":
		for name, state := range s.units {
			if matches, err := path.Match(last, name); err == nil && matches && !s.sticky[name] {
				state.active = "inactive"
			}
		}
		s.forgetContainerd()
	case "disable":
		for name, state := range s.units {
			if name == last || strings.HasPrefix(name, strings.TrimSuffix(last, ".service")) && strings.Contains(last, "@.") {
				state.enabled = false
			}
		}
	case "daemon-reload":
		for name := range maps.Clone(s.units) {
			template, _, isInstance := strings.Cut(name, "@")
			if !s.there(unitFile) && name == unitName || name == "kubelet.service" && !s.there("/etc/systemd/system/kubelet.service") ||
				isInstance && !s.there("/etc/systemd/system/"+template+"@.service") {
				if !s.units[name].runs() {
					delete(s.units, name)
				}
			}
		}
		s.forgetContainerd()
		if s.there(unitFile) && s.units[unitName] == nil {
			s.units[unitName] = &unitState{loaded: true, active: "inactive"}
		}
	}
	return "", 0
}

// forgetContainerd is what systemd does with a unit whose file is gone.
func (s *simulated) forgetContainerd() {
	unit := s.units[containerdUnit]
	if !s.bare || unit == nil || s.hasProgram("containerd") || s.there("/etc/systemd/system/containerd.service") {
		return
	}
	if unit.loaded = false; !unit.runs() {
		delete(s.units, containerdUnit)
		s.containerd = ""
	}
}

// runCloudInit does what the bootstrap data of these tests say.
func (s *simulated) runCloudInit() {
	s.units[unitName] = &unitState{loaded: true, active: "active"}
	s.cloudInit([]string{"clean"})
	s.files["/var/lib/cloud/instance/user-data.txt"] = s.files[seedDir+"/user-data"]
	s.files["/run/cloud-init/status.json"] = "{}"
	s.files["/etc/systemd/system/kubelet.service"], s.files["/etc/motd"] = "kubelet", "changed"
	s.files["/etc/systemd/system/watch@.service"] = "watch"
	s.files["/usr/local/bin/kubelet"], s.files["/usr/local/bin/kubelet.part"] = "theirs", "the"
	if s.bring != nil {
		s.bring(s)
	} else {
		s.files["/usr/bin/ctr"] = "theirs"
	}
	s.files["/etc/systemd/system/containerd.service.d/90-kok-proxy.conf"] = "EnvironmentFile=/etc/kok/proxy.env"
	s.files["/etc/hostname"], s.files["/etc/hosts"], s.name = "worker-1\n", "127.0.1.1 worker-1\n", "worker-1"
	s.users["deploy"], s.locked["deploy"], s.locked["admin"] = true, true, true
	s.files["/home/admin/.ssh/authorized_keys"] += "ssh-ed25519 " + tenantKey + " tenant\n"
	s.files["/home/deploy/.ssh/authorized_keys"] = "ssh-ed25519 " + tenantKey + " tenant\n"
	s.files["/etc/ssh/keys/deploy"] = "ssh-ed25519 " + tenantKey + " tenant\n"
	s.files[sudoersFile] = "deploy ALL=(ALL) NOPASSWD:ALL\n"
	s.files["/etc/chrony/chrony.conf.dist"], s.files["/etc/chrony/chrony.conf"] = s.files["/etc/chrony/chrony.conf"], "server theirs\n"
	s.files["/etc/apt/sources.list.d/theirs.list"], s.files["/etc/apt/trusted.gpg.d/theirs.gpg"] = "deb https://theirs.example.com ./", "key"
	s.files["/etc/apt/apt.conf.d/90cloud-init-aptproxy"] = "Acquire::http::Proxy \"http://theirs.example.com\";"
	if !s.succeed {
		return
	}
	s.units["watch@disk.service"] = &unitState{loaded: true, active: "active", enabled: true}
	s.units["kubelet.service"] = &unitState{loaded: true, active: "active", enabled: true}
	s.files["/var/lib/kubelet/config.yaml"], s.files["/etc/kubernetes/kubelet.conf"] = "", ""
	s.files["/etc/cni/net.d/10-flannel.conflist"], s.files[sentinelFile] = "", "success"
	s.tasks = []string{"0123abc", "4567def"}
	s.images = append(s.images, "registry.example.com/private/app:1", "sha256:0123")
	s.units[containerdUnit].active, s.containerd = "active", s.containerdSettings()
	s.links = append(s.links, "cni0", "flannel.1")
	s.tables = append(s.tables, "ip kube-proxy", "ip6 kube-proxy", "ip flannel-ipv4")
	s.iptables = "*filter\n:KUBE-FIREWALL - [0:0]\nCOMMIT\n"
	s.mounts = append(s.mounts, "/var/lib/kubelet/pods/1/volumes/a b", "/data")
}

func (s *simulated) cloudInit(args []string) (string, int) {
	switch args[0] {
	case "status":
		if s.succeed {
			return `{"status": "done", "detail": "DataSourceNoCloud", "errors": []}`, 0
		}
		return `{"status": "error", "detail": "x", "errors": ["('scripts-user', RuntimeError('Runparts: 1 failures'))"]}`, 1
	case "clean":
		for name := range maps.Clone(s.files) {
			if strings.HasPrefix(name, cloudDir+"/") && !strings.HasPrefix(name, cloudDir+"/seed/") {
				delete(s.files, name)
			}
		}
	}
	return "", 0
}

// plain is everything about a host that a machine must leave as it was.
func (s *simulated) plain() string {
	units := map[string]unitState{}
	for name, state := range s.units {
		units[name] = *state
	}
	return fmt.Sprint(s.containerd, s.links, s.tables, s.chains, s.iptables, s.name, s.files, units, s.users, s.locked, s.tasks, s.images, slices.DeleteFunc(slices.Clone(s.mounts), func(m string) bool { return m == "/data" }))
}

func TestPathsOfTheSimulatedHostAreAbsolute(t *testing.T) {
	for _, file := range nodePaths {
		if !path.IsAbs(file) || path.Clean(file) != file || strings.Count(file, "/") < 2 {
			t.Errorf("%q must not be removed", file)
		}
	}
}
