package controllers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdcomponent "github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/probe"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/pki"
)

// errBeingAsked is in the health of an etcd cluster that has not answered for the first time yet.
var errBeingAsked = errors.New("it is being asked")

// etcdHealth is what both etcd clusters said of themselves when they were last asked. They are asked
// in the background, from when a quorum is ready or a pod is to be replaced, and at once when the number
// of ready members changes, or of those that are to leave their nodes. There is no health of a cluster that cannot be asked yet.
func (r *Reconciler) etcdHealth(ctx context.Context, s *scope, workloads map[string]*workloadState, leaving map[string][]string) map[string]*etcd.Health {
	result := map[string]*etcd.Health{}
	if s.keys == nil || len(s.input.Addresses) == 0 {
		return result
	}
	for _, cluster := range etcdClusters {
		state := workloads[cluster.Component]
		if state == nil || (!state.works() && !state.rolling() && !bootstrapped(s.controlPlane, cluster.Component)) {
			continue
		}
		health := &etcd.Health{Err: errBeingAsked}
		key := probe.Key{Object: client.ObjectKeyFromObject(s.controlPlane), Kind: cluster.Component}
		if answer, ok := r.questions.Ask(key, r.etcdQuestion(ctx, s, cluster, *state, leaving[cluster.Component])); ok {
			health = healthOf(answer)
		} else {
			s.asking = true
		}
		result[cluster.Component] = health
	}
	return result
}

// healthOf is the health in an answer, which has none when asking panicked.
func healthOf(answer probe.Answer) *etcd.Health {
	if health, ok := answer.Value.(*etcd.Health); ok {
		return health
	}
	return &etcd.Health{Err: errors.New(answer.Problem)}
}

// etcdQuestion asks an etcd cluster how it is, and takes the next step of a change of its members or
// pods. It keeps nothing of the reconcile but key material and what was decided.
func (r *Reconciler) etcdQuestion(ctx context.Context, s *scope, cluster etcdcomponent.Cluster, state workloadState, leaving []string) probe.Question {
	visit := r.newEtcdVisit(ctx, s, cluster, state)
	visit.leaving = leaving
	return probe.Question{
		Identity: identityOf(s.host, s.keys.CA(visit.signer), visit.members),
		Prompt: fmt.Sprintf("%+v of %d: formed %t, %v, leaving %v",
			state, visit.desired, visit.formed, etcdStatus(s.controlPlane, cluster.Component).Members, leaving),
		Timeout: etcdTimeout,
		Ask:     visit.ask,
	}
}

// identityOf is different for other members, for members that another CA vouches for, and for another connection to
// their host cluster: what was asked by the one before ends.
func identityOf(host *Host, ca *pki.CA, members map[string]etcd.Address) string {
	identity := &strings.Builder{}
	fmt.Fprintln(identity, host.Identity)
	if ca != nil {
		identity.Write(ca.Bundle)
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		fmt.Fprintf(identity, "%s=%s\n", name, members[name].Client)
	}
	return identity.String()
}
