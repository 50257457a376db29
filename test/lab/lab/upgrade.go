package lab

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/hostcluster"
)

// UpgradeSteps are what is done between the steps of an upgrade; an error ends it.
type UpgradeSteps struct {
	// Cordoned is called with the name of each node when that is cordoned, before it is drained.
	Cordoned func(ctx context.Context, node string) error
	// Done is called with no name after the control plane, and with the name of each node that is whole again.
	Done func(ctx context.Context, node string) error
}

// UpgradeHostCluster brings the host cluster to another patch or to the next minor of Kubernetes, as people do: first the
// control plane, then one node after the other, each cordoned and drained before. Called again it goes on.
func (l *Lab) UpgradeHostCluster(ctx context.Context, to string, progress func(string), steps UpgradeSteps) error {
	from, err := l.HostVersion()
	if err != nil {
		return err
	}
	if err := checkStep(from, to); err != nil {
		return err
	}
	hosts, err := l.Hosts()
	if err != nil {
		return err
	}
	if len(hosts) == 0 {
		return errors.New("the lab is not up: bring it up first")
	}
	set, err := artifactsOf(ctx, to, progress)
	if err != nil {
		return err
	}
	config := l.clusterConfig(hosts, set, progress)
	err = l.locked(ctx, func() error {
		// Before all else: hosts that lose their power meanwhile boot with the new version's programs.
		if err := l.noteVersion(to); err != nil {
			return err
		}
		return hostcluster.UpgradeControlPlane(ctx, config)
	})
	if err == nil {
		err = steps.Done(ctx, "")
	}
	if err != nil {
		return fmt.Errorf("upgrade the host cluster's control plane to %s: %w", to, err)
	}
	for _, h := range config.Hosts {
		err := l.locked(ctx, func() error { return upgradeNode(ctx, config, h, steps) })
		if err == nil {
			err = steps.Done(ctx, h.Name)
		}
		if err != nil {
			return fmt.Errorf("upgrade node %s of the host cluster to %s: %w", h.Name, to, err)
		}
	}
	return nil
}

func upgradeNode(ctx context.Context, config hostcluster.Config, h *host.Host, steps UpgradeSteps) error {
	if err := hostcluster.UpgradeNode(ctx, config, h, steps.Cordoned); err != nil {
		return err
	}
	return h.RebaseAtBoot(config.Set.RootFS)
}

// checkStep allows what Kubernetes does: another patch, the next minor, or the same once more.
func checkStep(from, to string) error {
	a, err := version.ParseSemantic(from)
	if err != nil {
		return err
	}
	b, err := version.ParseSemantic(to)
	if err != nil {
		return err
	}
	if a.Major() != b.Major() || b.Minor() < a.Minor() || b.Minor() > a.Minor()+1 {
		return fmt.Errorf("the host cluster is of Kubernetes %s and cannot be upgraded to %s: minors go up one at a time", from, to)
	}
	return nil
}
