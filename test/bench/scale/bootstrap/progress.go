package main

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/scheme"
)

// progress is how far configs are, by a watch.
type progress struct {
	lock sync.Mutex
	// tokens has the token of each config that has its data Secret, revoked has those whose token is revoked.
	tokens  map[string]string
	revoked map[string]bool
	// said counts what configs say that have none.
	said map[string]string
}

// follow watches configs until the context ends.
func (p *progress) follow(ctx context.Context, access *rest.Config) error {
	p.tokens, p.revoked, p.said = map[string]string{}, map[string]bool{}, map[string]string{}
	all, err := cache.New(access, cache.Options{Scheme: scheme.Scheme(), DefaultTransform: cache.TransformStripManagedFields()})
	if err != nil {
		return err
	}
	informer, err := all.GetInformer(ctx, &bootstrapv1.KOKConfig{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watch KOKConfigs: %w", err)
	}
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: p.see, UpdateFunc: func(_, is any) { p.see(is) }}); err != nil {
		return err
	}
	go func() { _ = all.Start(ctx) }() // It ends with the context alone.
	return nil
}

func (p *progress) see(object any) {
	config, ok := object.(*bootstrapv1.KOKConfig)
	if !ok {
		return
	}
	p.lock.Lock()
	defer p.lock.Unlock()
	if !ptr.Deref(config.Status.Initialization.DataSecretCreated, false) {
		p.said[config.Name] = conditions.GetMessage(config, bootstrapv1.DataSecretAvailableCondition)
		return
	}
	delete(p.said, config.Name)
	p.tokens[config.Name] = config.Status.BootstrapToken.ID
	p.revoked[config.Name] = conditions.GetReason(config, bootstrapv1.BootstrapTokenValidCondition) == bootstrapv1.BootstrapTokenRevokedReason
}

func (p *progress) tokenOf(name string) string {
	p.lock.Lock()
	defer p.lock.Unlock()
	return p.tokens[name]
}

// count is how many configs have their data Secret, how many tokens are revoked, and what one of the others says.
func (p *progress) count() (created, revoked int, says string) {
	p.lock.Lock()
	defer p.lock.Unlock()
	for _, is := range p.revoked {
		if is {
			revoked++
		}
	}
	for _, message := range p.said {
		says = message
		break
	}
	return len(p.tokens), revoked, says
}
