package observation

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/registry"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostpods"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/workloads"
)

// replicasField is a number of replicas in the spec.
type replicasField struct {
	component, path string
	replicas        int
}

// WithoutRoom says which replicas can never run, because on the host network each replica needs a host node of its own. That harms the
// others, too: a Deployment first replaces pods that do not run, by pods that do not run either, so a change would never reach the pods
// that run. Host nodes are counted only while some replica does not run.
func WithoutRoom(ctx context.Context, live client.Reader, in *components.Input, seen map[string]*workloads.State) (problems []error, err error) {
	missing := withoutAllReplicas(in, seen)
	if len(missing) == 0 {
		return nil, nil
	}
	// A host node that was just labelled counts.
	hosts, err := hostpods.CountNodes(ctx, live, in.Spec.Hosting.HostNodeLabels())
	if err != nil {
		return nil, err
	}
	// Where there is no host node at all, every component says so.
	for _, field := range missing {
		if hosts > 0 && field.replicas > hosts {
			problems = append(problems, fmt.Errorf("%s is %d, on the host network each replica needs a host node of its own, and there are %d: "+
				"lower it, or label host nodes; a rollout of %s cannot end before", field.path, field.replicas, hosts, field.component))
		}
	}
	return problems, nil
}

// withoutAllReplicas are those of components on the host network of which not every replica runs. A DaemonSet has as
// many as there are host nodes.
func withoutAllReplicas(in *components.Input, seen map[string]*workloads.State) []replicasField {
	if in.OnPodNetwork() {
		return nil
	}
	var fields []replicasField
	for _, component := range registry.Components {
		state := seen[component.Name]
		if component.OwnHosts == nil || state == nil || state.Complete() {
			continue
		}
		if path, replicas := component.OwnHosts(in); path != "" {
			fields = append(fields, replicasField{component.Name, path, int(replicas)})
		}
	}
	return fields
}
