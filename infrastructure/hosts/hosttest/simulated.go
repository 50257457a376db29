// Package hosttest has hosts for tests. A Simulated runs the commands of the packages in hosts, and a Liar answers them with
// what a test gives it.
package hosttest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/cloudinit"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/ssh"
)

// Simulated is a host that understands the commands of the packages in hosts, and no others. The lab's tests use real hosts;
// this one can be cut off after any command.
type Simulated struct {
	t    *testing.T
	name string

	// Files has the content of each file by its path. A folder exists while a file is in it.
	Files map[string]string
	// Mounts are mount points.
	Mounts []string
	// Symlinks are symbolic links, by their path, and what they lead to.
	Symlinks map[string]string
	// Disks has what stat prints for the file system of a folder; empty for a folder that does not exist. All others have room.
	Disks map[string]string

	// Units are the units that systemd has loaded.
	Units map[string]*hosts.UnitState
	// Users are the users that exist. Locked are those whose password is locked.
	Users, Locked map[string]bool

	// Links are network devices, Routes routes in the words of ip-route(8), such as "10.0.0.0/8 via 192.0.2.1 dev eth0".
	Links, Routes []string
	// Tables and Chains are those of nftables; iptables is what iptables-save prints.
	Tables, Chains []string
	iptables       string

	// Tasks are the containers that run.
	Tasks  []string
	Images []string
	// containerd has the settings that containerd read when it started.
	containerd string
	// bare is true for a host without a containerd of its own.
	bare bool
	// Bring does what the bootstrap data of such a host do.
	Bring func(*Simulated)
	// Succeed is whether cloud-init succeeds, Starts how often it was started.
	Succeed bool
	Starts  int

	// Sticky are the things that no command changes: files, mounts, units, devices, routes, tables, images, iptables, and kok-software,
	// which fails.
	Sticky map[string]bool
	// Answers are answers to commands, which then change nothing.
	Answers map[string]ssh.Result
	// NoSudo is true when its user may not use sudo.
	NoSudo bool
	// CutAfter is the number of commands after which the connection is gone; 0 for never.
	CutAfter int
	// Ran are the commands that it ran.
	Ran []string
	// stdin is the standard input of the command that runs.
	stdin string
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
			"/proc/uptime": "100000.00 350000.00\n", "/run/systemd/system/.kept": "",
		},
		Mounts: []string{"/var/lib/kubelet"}, Links: []string{"eth0"},
		Routes: []string{"default via 192.0.2.1 dev eth0", "10.0.0.0/8 via 192.0.2.1 dev eth0", "10.244.99.0/24 via 192.0.2.1 dev eth0"},
		Images: []string{"registry.k8s.io/pause:3.10"}, Tables: []string{"inet firewall"}, Chains: []string{"inet firewall INPUT"},
		Sticky: map[string]bool{}, Answers: map[string]ssh.Result{},
	}
	s.containerd = s.containerdSettings()
	return s
}

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
	if result, ok := s.Answers[strings.Join(args, " ")]; ok {
		return answer(command, result)
	}
	run, known := programs[args[0]]
	if !known {
		s.t.Errorf("the host knows no command %q", args)
		return ssh.Result{ExitStatus: 127}, nil
	}
	s.stdin = string(command.Stdin)
	out, status := run(s, args[1:])
	return answer(command, ssh.Result{Stdout: []byte(out), ExitStatus: status})
}

// answer ends a command as an *ssh.Client does.
func answer(command ssh.Command, result ssh.Result) (ssh.Result, error) {
	printed := result.Stdout
	switch {
	case command.Read != nil:
		result.Stdout = nil
		if err := command.Read(bytes.NewReader(printed)); err != nil && result.ExitStatus == 0 {
			return result, fmt.Errorf("read what %s prints: %w", ssh.Quote(command.Args), err)
		}
	case len(printed) > ssh.MaxOutput && !command.MayBeCut:
		return ssh.Result{}, fmt.Errorf("run %s: it wrote more than %d bytes, and the rest is lost", ssh.Quote(command.Args), ssh.MaxOutput)
	}
	return result, nil
}

// operands are the arguments after "--".
func operands(args []string) []string { return args[slices.Index(args, "--")+1:] }

// program is what a program of the host does with its arguments. It returns what the program prints, and its exit status.
type program func(s *Simulated, args []string) (stdout string, exitStatus int)

// prints is a program that prints the same each time.
func prints(text string) program {
	return func(*Simulated, []string) (string, int) { return text, 0 }
}

// programs are all that the host understands.
var programs = map[string]program{
	"true":       prints(""),
	"uname":      (*Simulated).uname,
	"nproc":      prints("4\n"),
	"hostname":   (*Simulated).hostname,
	"journalctl": prints(""),

	"cat":      (*Simulated).cat,
	"head":     (*Simulated).head,
	"tail":     prints("Cloud-init starts\ntoken: abcdef.0123456789abcdef\nit broke\n"),
	"grep":     (*Simulated).grep,
	"find":     (*Simulated).find,
	"stat":     (*Simulated).stat,
	"realpath": (*Simulated).realpath,
	"install":  (*Simulated).install,
	"dd":       (*Simulated).dd,
	"tar":      (*Simulated).tar,
	"sync":     prints(""),
	"timeout":  (*Simulated).timeout,
	"sed":      (*Simulated).sed,
	"mv":       (*Simulated).mv,
	"cp":       (*Simulated).cp,
	"env":      (*Simulated).env,
	"rm":       (*Simulated).rm,
	"umount":   (*Simulated).umount,

	"getent":  (*Simulated).getent,
	"passwd":  (*Simulated).passwd,
	"usermod": (*Simulated).usermod,
	"userdel": (*Simulated).userdel,
	"sshd":    prints("port 22\nauthorizedkeysfile .ssh/authorized_keys /etc/ssh/keys/%u\n"),

	"ip":               (*Simulated).ip,
	"nft":              (*Simulated).nft,
	"iptables-save":    (*Simulated).iptablesSave,
	"iptables-restore": (*Simulated).iptablesRestore,

	"systemctl":      (*Simulated).systemctl,
	"ctr":            (*Simulated).ctr,
	"cloud-init":     (*Simulated).cloudInit,
	software.Program: (*Simulated).kokSoftware,
}

func (s *Simulated) uname(args []string) (string, int) {
	return map[string]string{"-n": s.name, "-m": "x86_64", "-r": "6.1.0"}[args[0]] + "\n", 0
}

// timeout runs systemctl, which ends in time.
func (s *Simulated) timeout(args []string) (string, int) { return s.systemctl(args[2:]) }

func (s *Simulated) hostname(args []string) (string, int) {
	s.name = args[1]
	return "", 0
}

// Plain tells everything about the host that a machine must leave as it was.
func (s *Simulated) Plain() string {
	units := map[string]hosts.UnitState{}
	for name, state := range s.Units {
		units[name] = *state
	}
	return fmt.Sprint(s.containerd, s.Links, s.Routes, s.Tables, s.Chains, s.iptables, s.name, s.Files, units, s.Users, s.Locked, s.Tasks, s.Images, slices.DeleteFunc(slices.Clone(s.Mounts), func(m string) bool { return m == "/data" }))
}

// ExpectPlain fails the test unless the host is as Plain told before.
func (s *Simulated) ExpectPlain(before, when string) {
	s.t.Helper()
	if after := s.Plain(); after != before {
		s.t.Errorf("%s, the host was\n%s\nand is\n%s", when, before, after)
	}
}
