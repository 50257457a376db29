package controllers

import (
	"context"
	"fmt"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/registry"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostpods"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/status"
)

// replicasField is a number of replicas in the spec.
type replicasField struct {
	component, path string
	replicas        int
}

// checkRoom notes replicas that can never run: on the host network each needs a host node of its own. A Deployment
// replaces pods that do not run first, by others that do not either, so that no change would ever reach those that
// do. While every replica runs nobody counts host nodes.
func checkRoom(ctx context.Context, s *scope, seen *status.Observation) error {
	missing := withoutAllReplicas(s, seen)
	if len(missing) == 0 {
		return nil
	}
	// A host node that was just labelled counts.
	hosts, err := hostpods.CountNodes(ctx, s.host.Live, s.input.Spec.Hosting.NodeSelector)
	if err != nil {
		return err
	}
	// Where there is no host node at all, every component says so.
	for _, field := range missing {
		if hosts > 0 && field.replicas > hosts {
			s.note(fmt.Errorf("%s is %d, on the host network each replica needs a host node of its own, and there are %d: "+
				"lower it, or label host nodes; a rollout of %s cannot end before", field.path, field.replicas, hosts, field.component))
		}
	}
	return nil
}

// withoutAllReplicas are those of components on the host network of which not every replica runs. A DaemonSet has as
// many as there are host nodes.
func withoutAllReplicas(s *scope, seen *status.Observation) []replicasField {
	if s.input.OnPodNetwork() {
		return nil
	}
	var fields []replicasField
	for _, component := range registry.Components {
		state := seen.Workloads[component.Name]
		if component.OwnHosts == nil || state == nil || state.Complete() {
			continue
		}
		if path, replicas := component.OwnHosts(&s.input); path != "" {
			fields = append(fields, replicasField{component.Name, path, int(replicas)})
		}
	}
	return fields
}
