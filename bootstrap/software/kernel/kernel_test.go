package kernel

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software/disk"
)

func newKernel(t *testing.T, files map[string]string) *Kernel {
	t.Helper()
	root := t.TempDir()
	for path, content := range files {
		if err := os.MkdirAll(filepath.Dir(root+path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(root+path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return &Kernel{Disk: &disk.Disk{Root: root}}
}

func TestModulesAreLoadedThatAreNeitherLoadedNorBuiltIn(t *testing.T) {
	var uname unix.Utsname
	if err := unix.Uname(&uname); err != nil {
		t.Fatal(err)
	}
	k := newKernel(t, map[string]string{
		"/sys/module/br_netfilter/refcnt":                                               "0",
		"/lib/modules/" + unix.ByteSliceToString(uname.Release[:]) + "/modules.builtin": "kernel/fs/overlayfs/overlay.ko\nkernel/net/nf-conntrack.ko\n",
	})
	var loaded []string
	k.Load = func(_ context.Context, module string) error {
		loaded = append(loaded, module)
		if module == "none" {
			return errors.New("not found in directory /lib/modules")
		}
		return nil
	}
	if err := k.LoadModules(t.Context(), []string{"br-netfilter", "overlay", "nf_conntrack", "vhost_net"}); err != nil {
		t.Error(err)
	}
	if err := k.LoadModules(t.Context(), []string{"none"}); err == nil || !strings.Contains(err.Error(), "kernel.modules: load none: not found") {
		t.Error(err)
	}
	if !slices.Equal(loaded, []string{"vhost_net", "none"}) {
		t.Errorf("loaded %v", loaded)
	}
}

func TestSysctlsAreSetThatDiffer(t *testing.T) {
	const folder = "/proc/sys/net/ipv4/"
	k := newKernel(t, map[string]string{folder + "ip_forward": "0\n", folder + "tcp_rmem": "4096\t131072\t6291456\n", folder + "conf/eth0.1/forwarding": "0\n"})
	wanted := map[string]string{"net.ipv4.ip_forward": "1", "net.ipv4.tcp_rmem": "4096 131072 6291456", "net.ipv4.conf.eth0/1.forwarding": "1"}
	differing, err := k.Differing(wanted)
	if err != nil || !maps.Equal(differing, map[string]string{"net.ipv4.ip_forward": "0", "net.ipv4.conf.eth0/1.forwarding": "0"}) {
		t.Errorf("%v: %v", differing, err)
	}
	if err := k.Set(wanted); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"ip_forward": "1\n", "tcp_rmem": "4096\t131072\t6291456\n", "conf/eth0.1/forwarding": "1\n"} {
		if got, err := os.ReadFile(k.Disk.Root + folder + path); err != nil || string(got) != want {
			t.Errorf("%s is %q: %v", path, got, err)
		}
	}
	if err := k.Set(map[string]string{"net.bridge.bridge-nf-call-iptables": "1"}); err == nil || !strings.Contains(err.Error(), "name the module that brings it") {
		t.Error(err)
	}
}

func TestFiles(t *testing.T) {
	files := Files(bootstrapv1.SoftwareKernel{Modules: []string{"overlay", "br_netfilter"}, Sysctls: map[string]string{"net.ipv4.ip_forward": "1", "a.b": "2 3"}})
	want := map[string]string{
		ModulesFile: "# Written by kok-software.\nbr_netfilter\noverlay\n",
		SysctlsFile: "# Written by kok-software.\na.b = 2 3\nnet.ipv4.ip_forward = 1\n",
	}
	if !maps.Equal(files, want) || len(Files(bootstrapv1.SoftwareKernel{})) != 0 {
		t.Errorf("%q", files)
	}
}
