package cleanup_test

import (
	"errors"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/bootstrap/bootstraptest"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/cleanup"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/cloudinit"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/hosttest"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/records"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/onworker"
)

func TestACleanUpThatLeavesSomethingSaysWhat(t *testing.T) {
	for name, test := range map[string]struct {
		sticky string
		want   string
	}{
		"a folder": {"/var/lib/kubelet", "after the clean-up there still is: file /var/lib/kubelet/config.yaml"},
		"a device": {"cni0", "after the clean-up there still is: network device cni0"},
		"a route":  {"10.244.2.0/24 via 192.0.2.8 dev eth0", "after the clean-up there still is: route 10.244.2.0/24 via 192.0.2.8 dev eth0"},
		"a key":    {"/home/admin/.ssh/authorized_keys", "after the clean-up there still is: SSH keys in /home/admin/.ssh/authorized_keys"},
		"a seed":   {cloudinit.Dir, "after the clean-up there still is: file " + cloudinit.SeedDir},
		"a table":  {"ip6 kube-proxy", "after the clean-up there still is: nftables table ip6 kube-proxy"},
		"a rule":   {"iptables", "after the clean-up there still is: a node's rules in what iptables-save prints"},
		"a chain":  {"ip nat KUBE-SERVICES", "after the clean-up there still is: nftables chain ip nat KUBE-SERVICES"},
		"an image": {"sha256:0123", "after the clean-up there still is: image sha256:0123"},
		"a unit":   {"kubelet.service", "after the clean-up there still is: unit kubelet.service (active)"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := hosttest.New(t)
				if test.sticky == cloudinit.Dir {
					s.Remove(cloudinit.Dir)
				}
				h := bootstraptest.Bootstrapped(t, s, bootstraptest.Worker())
				s.Sticky[test.sticky] = true
				if name == "a chain" { // Nothing that the host has shows it, but nft.
					s.Chains = append(s.Chains, test.sticky)
				}
				var unclean *cleanup.UncleanError
				if err := cleanup.Run(t.Context(), h, "id-1"); !errors.As(err, &unclean) || unclean.Error() != test.want {
					t.Errorf("%v", err)
				}
				s.Sticky, s.Chains = map[string]bool{}, s.Chains[:1]
				if err := cleanup.Run(t.Context(), h, "id-1"); err != nil || s.There(records.Dir) {
					t.Errorf("a second one: %v", err)
				}
			})
		})
	}
}

// Without its record nobody knows what came with a machine.
func TestANodeWithoutARecordIsNotTakenForClean(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := hosttest.New(t)
		h := bootstraptest.Bootstrapped(t, s, bootstraptest.Worker())
		s.Remove(records.Dir)
		for _, left := range []string{"file " + onworker.Kubeconfig + "; file " + onworker.SentinelFile, "file " + onworker.SentinelFile} {
			var unclean *cleanup.UncleanError
			want := "after the clean-up there still is: " + left + ", and " + records.File + ", which says what else came with the machine, is gone"
			if err := cleanup.Run(t.Context(), h, "id-1"); !errors.As(err, &unclean) || unclean.Error() != want {
				t.Errorf("%v, want %s", err, want)
			}
			s.Remove(onworker.Kubeconfig)
		}
		s.Remove(path.Clean(onworker.SentinelDir))
		if err := cleanup.Run(t.Context(), h, "id-1"); err != nil {
			t.Errorf("put right: %v", err)
		}
	})
}

// Volumes of the root disk have its device number: removing "on one file system" goes into them.
func TestAVolumeThatStaysMountedKeepsItsData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := hosttest.New(t)
		h := bootstraptest.Bootstrapped(t, s, bootstraptest.Worker())
		const stays, other, data = "/var/lib/kubelet/pods/1/volumes/a b", "/var/lib/kubelet/pods/2/volumes/c", "/var/lib/kubelet/pods/1/volumes/a b/data"
		s.Mounts = slices.Insert(s.Mounts, 1, other)
		s.Files[data], s.Sticky[stays] = "precious", true
		err := cleanup.Run(t.Context(), h, "id-1")
		for _, want := range []string{"unmount volumes: umount --lazy -- " + stays, "remove a node's files: they all stay", stays + " is still mounted", "there still is: mount " + stays} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q is not in: %v", want, err)
			}
		}
		if s.Files[data] != "precious" {
			t.Error("the volume lost its data")
		}
		if slices.Contains(s.Mounts, other) {
			t.Error("the other volume is still mounted")
		}
		s.Sticky = map[string]bool{}
		if err := cleanup.Run(t.Context(), h, "id-1"); err != nil {
			t.Errorf("unmounted: %v", err)
		}
	})
}

// Somebody may make the link after the machine was made. If the clean-up removed only the link, the next machine would get what is behind it.
func TestALinkInPlaceOfANodesFolderIsLeftToAPerson(t *testing.T) {
	for _, link := range []string{"/var/lib/kubelet", "/var/lib"} {
		t.Run(link, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := hosttest.New(t)
				h := bootstraptest.Bootstrapped(t, s, bootstraptest.Worker())
				s.Symlinks = map[string]string{link: "/data" + link}
				err := cleanup.Run(t.Context(), h, "id-1")
				for _, want := range []string{
					"remove a node's files: they all stay, for a link leads elsewhere: /var/lib/kubelet (it is /data/var/lib/kubelet)",
					"there still is: ", "file /var/lib/kubelet",
				} {
					if err == nil || !strings.Contains(err.Error(), want) {
						t.Errorf("%q is not in: %v", want, err)
					}
				}
				if !s.There(records.Dir) || !s.There("/etc/kubernetes") {
					t.Error("a node's files or the record are gone")
				}
				s.Symlinks = nil
				if err := cleanup.Run(t.Context(), h, "id-1"); err != nil || s.There(records.Dir) {
					t.Errorf("put right: %v", err)
				}
			})
		})
	}
}

// kube-proxy's rules of some 750 Services are more than other commands may print.
func TestAHostWithTheRulesOfManyServicesIsCleaned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := hosttest.New(t)
		before := s.Plain()
		h := bootstraptest.Bootstrapped(t, s, bootstraptest.Worker())
		s.AddServices(5000)
		if err := cleanup.Run(t.Context(), h, "id-1"); err != nil {
			t.Errorf("%.500v", err)
		}
		s.ExpectPlain(before, "after the clean-up")
	})
}

// A network may bring iptables in its image. The host has none, and its nft shows what that made.
func TestWhatANetworkMadeGoesFromAHostWithoutIptables(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := hosttest.NewBare(t)
		s.Remove("/usr/bin/iptables-save")
		chains, links := slices.Clone(s.Chains), slices.Clone(s.Links)
		h := bootstraptest.Bootstrapped(t, s, bootstraptest.Worker())
		s.Links = append(s.Links, "flannel-wg", "wireguard.cali", "wg-v6.cali", "vxlan-v6.calico", "cilium_geneve")
		s.Chains = append(s.Chains, "ip nat FLANNEL-POSTRTG", "ip filter FLANNEL-FWD", "ip6 nat FLANNEL-POSTRTG")
		if err := cleanup.Run(t.Context(), h, "id-1"); err != nil {
			t.Error(err)
		}
		if !slices.Equal(s.Chains, chains) || !slices.Equal(s.Links, links) {
			t.Errorf("there are chains %q and devices %q", s.Chains, s.Links)
		}
	})
}
