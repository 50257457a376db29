package lab

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/artifacts"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/hostcluster"
)

// firstHosts is what a new lab consists of.
var firstHosts = []string{"cloud-1", "idc-1", "idc-2", "idc-3"}

// Report is how long an Up took.
type Report struct {
	// Running tells that every host had power before: there was hardly anything to do.
	Running bool
	// Artifacts is the time to make programs, images and the base of the disks, or to find them made.
	Artifacts time.Duration
	// Hosts is the time until every host had booted, Cluster the time until the host cluster was usable.
	Hosts, Cluster time.Duration
}

// Total is the whole time.
func (r *Report) Total() time.Duration { return r.Artifacts + r.Hosts + r.Cluster }

// Write prints the figure of an Up that booted the lab. It is warm when it found programs and images made.
func (r *Report) Write(w io.Writer) error {
	if r.Running {
		return nil
	}
	kind := "warm"
	if r.Artifacts > 10*time.Second {
		kind = "cold"
	}
	_, err := fmt.Fprintf(w, "figure lab_up_%s_seconds %.1f s\n", kind, r.Total().Seconds())
	return err
}

// Up brings the lab up with a host cluster of a Kubernetes version; empty is the newest. It makes what is missing and boots
// what is off, so an Up that was interrupted goes on where it ended. A link that was cut is healed. A lab that was made with
// another version is refused.
func (l *Lab) Up(ctx context.Context, version string, progress func(string)) (*Report, error) {
	report := &Report{}
	return report, l.locked(ctx, func() error { return l.up(ctx, version, progress, report) })
}

func (l *Lab) up(ctx context.Context, version string, progress func(string), report *Report) error {
	if err := l.chooseVersion(version); err != nil {
		return err
	}
	began := time.Now()
	// Before the long part: an address range that is taken is told at once.
	if err := host.EnsureNetwork(ctx, l.network); err != nil {
		return fmt.Errorf("make the lab's network: %w", err)
	}
	if err := host.Claim(l.network, l.state); err != nil {
		return err
	}
	if err := host.Heal(l.network); err != nil {
		return err
	}
	if err := l.raiseLimits(); err != nil {
		return err
	}
	set, err := l.Artifacts(ctx, progress)
	if err != nil {
		return err
	}
	report.Artifacts, began = time.Since(began), time.Now()
	report.Running = l.running()
	hosts, err := l.ensureHosts(ctx, set, progress)
	if err != nil {
		return err
	}
	report.Hosts, began = time.Since(began), time.Now()
	if err := hostcluster.Bring(ctx, l.clusterConfig(hosts, set, progress)); err != nil {
		return fmt.Errorf("bring up the host cluster: %w", err)
	}
	report.Cluster = time.Since(began)
	return nil
}

// running tells whether all of the first hosts exist and have power.
func (l *Lab) running() bool {
	for _, name := range firstHosts {
		if h, err := host.Load(l.network, l.state, name); err != nil || !h.Booted() {
			return false
		}
	}
	return true
}

// nodes are the hosts that belong to the host cluster.
func nodes(hosts []*host.Host) []*host.Host {
	return slices.DeleteFunc(slices.Clone(hosts), (*host.Host).Worker)
}

func (l *Lab) clusterConfig(hosts []*host.Host, set *artifacts.Set, progress func(string)) hostcluster.Config {
	return hostcluster.Config{Hosts: nodes(hosts), Set: set, Network: l.network, StateDir: l.state, Progress: progress}
}

// ensureHosts makes the first hosts when they are missing, and boots all there are.
func (l *Lab) ensureHosts(ctx context.Context, set *artifacts.Set, progress func(string)) ([]*host.Host, error) {
	for _, name := range firstHosts {
		if _, err := host.Load(l.network, l.state, name); err == nil {
			continue
		}
		h, err := host.New(l.network, l.state, name)
		if err != nil {
			return nil, err
		}
		if err := l.createHost(ctx, h, set, progress); err != nil {
			return nil, err
		}
	}
	hosts, err := l.Hosts()
	if err != nil {
		return nil, err
	}
	for _, h := range hosts {
		switch {
		case h.BaseRoot == set.RootFS, h.System != "":
		case h.Booted():
			progress(h.Name + " runs older programs than there are now: it gets them when it boots the next time")
		default:
			if err := h.Rebase(ctx, set.RootFS); err != nil {
				return nil, err
			}
		}
	}
	group, groupContext := errgroup.WithContext(ctx)
	for _, h := range hosts {
		group.Go(func() error { return h.Boot(groupContext) })
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	progress(fmt.Sprintf("%d hosts booted", len(hosts)))
	return hosts, nil
}

func (l *Lab) createHost(ctx context.Context, h *host.Host, set *artifacts.Set, progress func(string)) error {
	if h.System != "" {
		cache, err := artifacts.CacheDir()
		if err != nil {
			return err
		}
		root, err := artifacts.EnsureBare(ctx, cache, h.System, progress)
		if err != nil {
			return err
		}
		return h.Create(root)
	}
	if err := h.CloneContainerd(set.ContainerdRoot); err != nil {
		return err
	}
	return h.Create(set.RootFS)
}

// nextName is the first free name of a group of hosts.
func nextName(group string, hosts []*host.Host) string {
	used := map[string]bool{}
	for _, h := range hosts {
		used[h.Name] = true
	}
	n := 1
	for used[fmt.Sprintf("%s-%d", group, n)] {
		n++
	}
	return fmt.Sprintf("%s-%d", group, n)
}
