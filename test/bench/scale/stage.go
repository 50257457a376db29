package main

import (
	"context"
	"errors"
	"fmt"

	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/manager"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/scale/standin"
)

const (
	provider         = "controlplane"
	managerNamespace = "kok-control-plane-system"
	// serviceRange has addresses that this machine can listen on: what stands in for tenants listens at their Services.
	serviceRange = "127.250.0.0/16"
)

// stage is a management cluster, which is the host cluster, too.
type stage struct {
	manager.Stage

	host *standin.Host
}

func newStage() *stage {
	return &stage{Stage: manager.Stage{Provider: provider, Namespace: managerNamespace, Kinds: []string{provider}}}
}

// start starts the API server, installs the provider without its manager, and starts what stands in for the rest, with host nodes of
// these port pools.
func (s *stage) start(ctx context.Context, pools []string) (err error) {
	if err := s.Start(ctx, func(server *envtest.APIServer) { server.Configure().Set("service-cluster-ip-range", serviceRange) }); err != nil {
		return err
	}
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: components.PriorityClassName}, Value: 1_000_000_000}
	if err := s.Client.Create(ctx, class); err != nil {
		return fmt.Errorf("create the class of the provider's pods: %w", err)
	}
	if s.host, err = standin.New(s.Config); err != nil {
		return err
	}
	return s.host.Start(ctx, pools)
}

func (s *stage) stop() error {
	var err error
	if s.host != nil {
		err = s.host.Stop()
	}
	return errors.Join(err, s.Stop())
}
