package ports

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// Component is the value of names.ComponentLabel on claims.
const Component = "ports"

const (
	namePrefix   = "kok-ports-"
	namespaceKey = "clusterNamespace"
	nameKey      = "clusterName"

	// How often one block is tried when its claim comes and goes in between.
	attempts = 5
)

// Claims are the claims of blocks in one host cluster.
type Claims struct {
	client    client.Client
	reader    client.Reader
	namespace string
	span      Span
	// pool is the port pool whose blocks are claimed; empty for none.
	pool string
}

// New returns the claims, outside of port pools, that are kept in a namespace of the host cluster; every manager that serves
// the host cluster must use the same namespace. The client's reads may come from a cache. The reader
// must not be one: a claim that was just written has to be seen. New claims are of blocks in span.
func New(c client.Client, reader client.Reader, namespace string, span Span) *Claims {
	return &Claims{client: c, reader: reader, namespace: namespace, span: span}
}

// In returns the claims of blocks in a port pool; in none when it is empty. A block may be claimed once in each pool, and once outside
// of pools.
func (c *Claims) In(pool string) *Claims {
	in := *c
	in.pool = pool
	return &in
}

// Claim makes sure that the Cluster holds a block and returns its first port. With pinned, which is
// spec.hosting.ports.first, it is that block, and any other that the Cluster holds is given back, in other
// pools, too. With pinned zero it is the block that the Cluster holds already in the pool, even if spec does not name it, else the
// first free one after a place that depends on the Cluster's name. Then nothing is given back, because
// a caller that has not seen spec yet cannot know which block is used.
//
// A block that the Cluster holds stays its own when span is another later. One that was lost is claimed anew by Keep. Errors are *HeldError,
// *OutsideError and *ExhaustedError, which a person must resolve, or those of the API server.
func (c *Claims) Claim(ctx context.Context, cluster client.ObjectKey, pinned int32) (int32, error) {
	if pinned != 0 {
		if c.seenSettled(ctx, cluster, pinned) {
			return pinned, nil
		}
		return pinned, c.claimPinned(ctx, cluster, pinned)
	}
	if first, err := c.heldHere(ctx, cluster); first != 0 || err != nil {
		return first, err
	}
	if err := c.claimFree(ctx, cluster); err != nil {
		return 0, err
	}
	// Another manager may have claimed for the same Cluster in the meantime.
	first, err := c.heldHere(ctx, cluster)
	if first == 0 && err == nil {
		err = fmt.Errorf("claim host ports for Cluster %s: the claim vanished right after it was made", cluster)
	}
	return first, err
}

// Keep is Claim for a tenant that runs with the pinned block. It claims the block anew even outside of span: pods of the tenant have these
// ports, and nobody else gets a block there. docs/decisions/rendering.md#running-tenants-outlive-new-rules
func (c *Claims) Keep(ctx context.Context, cluster client.ObjectKey, pinned int32) (int32, error) {
	kept := *c
	if pinned != 0 {
		kept.span = Block(pinned)
	}
	return kept.Claim(ctx, cluster, pinned)
}

// Release gives back every block that the Cluster holds, in all pools. It is for when no pod of the tenant is left.
func (c *Claims) Release(ctx context.Context, cluster client.ObjectKey) error {
	held, err := c.heldBy(ctx, c.reader, cluster)
	if err != nil {
		return err
	}
	return c.deleteAll(ctx, held)
}

// seenSettled reports whether the cache has the claim of the block, and no other of the Cluster: then
// no request to the API server is needed. A cache without the namespace of claims has none.
func (c *Claims) seenSettled(ctx context.Context, cluster client.ObjectKey, pinned int32) bool {
	held, err := c.heldBy(ctx, c.client, cluster)
	return err == nil && len(held) == 1 && held[0].Name == c.claim(cluster, pinned).Name
}

func (c *Claims) claimPinned(ctx context.Context, cluster client.ObjectKey, pinned int32) error {
	holder, claim, err := c.take(ctx, cluster, pinned)
	if err != nil {
		return err
	}
	if holder != cluster {
		return &HeldError{First: pinned, Pool: c.pool, Claim: client.ObjectKeyFromObject(claim), Holder: holder}
	}
	if err := c.repairLabels(ctx, cluster, claim); err != nil {
		return err
	}
	held, err := c.heldBy(ctx, c.reader, cluster)
	if err != nil {
		return err
	}
	held = slices.DeleteFunc(held, func(other corev1.ConfigMap) bool { return other.Name == claim.Name })
	return c.deleteAll(ctx, held)
}

// claimFree claims the first free block after the Cluster's own starting place. Different places keep
// many Clusters that start together from trying the same blocks.
func (c *Claims) claimFree(ctx context.Context, cluster client.ObjectKey) error {
	blocks := c.span.blocks()
	if blocks == 0 {
		return &ExhaustedError{Range: c.span, Pool: c.pool}
	}
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(cluster.String()))
	start := int32(hash.Sum32() % uint32(blocks))
	for i := range blocks {
		block := c.span.firstBlock() + (start+i)%blocks*controlplanev1.PortBlockSize
		holder, claim, err := c.take(ctx, cluster, block)
		if err != nil {
			return err
		}
		if holder == cluster {
			return c.repairLabels(ctx, cluster, claim)
		}
	}
	return &ExhaustedError{Range: c.span, Pool: c.pool, Blocks: blocks}
}

// take tries to create the claim of a block, and returns its holder afterwards.
func (c *Claims) take(ctx context.Context, cluster client.ObjectKey, block int32) (client.ObjectKey, *corev1.ConfigMap, error) {
	for range attempts {
		claim := c.claim(cluster, block)
		key := client.ObjectKeyFromObject(claim)
		// A read first costs less than a refused write, for blocks of others and for one's own.
		err := c.reader.Get(ctx, key, claim)
		if err == nil {
			return holder(claim), claim, nil
		}
		if !apierrors.IsNotFound(err) {
			return client.ObjectKey{}, nil, fmt.Errorf("get the claim of host ports %s, ConfigMap %s: %w", Block(block), key, err)
		}
		if !c.span.Contains(Block(block)) {
			return client.ObjectKey{}, nil, &OutsideError{First: block, Range: c.span}
		}
		claim = c.claim(cluster, block)
		err = c.client.Create(ctx, claim, client.FieldOwner(names.FieldManager))
		if err == nil {
			return cluster, claim, nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return client.ObjectKey{}, nil, fmt.Errorf("claim host ports %s for Cluster %s with ConfigMap %s: %w", Block(block), cluster, key, err)
		}
	}
	return client.ObjectKey{}, nil, fmt.Errorf("claim host ports %s for Cluster %s: the claim of another came and went %d times", Block(block), cluster, attempts)
}

// heldHere is the first port of the oldest block that the Cluster holds in the pool; 0 for none.
func (c *Claims) heldHere(ctx context.Context, cluster client.ObjectKey) (int32, error) {
	held, err := c.heldBy(ctx, c.reader, cluster)
	if err != nil {
		return 0, err
	}
	for i := range held {
		if pool, first, err := blockOf(&held[i]); err != nil || pool == c.pool {
			return first, err
		}
	}
	return 0, nil
}

// heldBy lists the claims of one Cluster in all pools, the oldest first: should two managers have claimed for it at
// the same time, both keep the same one.
func (c *Claims) heldBy(ctx context.Context, reader client.Reader, cluster client.ObjectKey) ([]corev1.ConfigMap, error) {
	var list corev1.ConfigMapList
	if err := reader.List(ctx, &list, client.InNamespace(c.namespace), client.MatchingLabels(names.ComponentLabels(cluster, Component))); err != nil {
		return nil, fmt.Errorf("list claims of host ports of Cluster %s in namespace %s: %w", cluster, c.namespace, err)
	}
	held := slices.DeleteFunc(list.Items, func(claim corev1.ConfigMap) bool { return holder(&claim) != cluster })
	slices.SortFunc(held, func(a, b corev1.ConfigMap) int { return compareAge(&a, &b) })
	return held, nil
}

// repairLabels puts back labels that somebody edited: without them the claim would not be found again.
func (c *Claims) repairLabels(ctx context.Context, cluster client.ObjectKey, claim *corev1.ConfigMap) error {
	before := claim.DeepCopy()
	for key, value := range names.ComponentLabels(cluster, Component) {
		metav1.SetMetaDataLabel(&claim.ObjectMeta, key, value)
	}
	if maps.Equal(before.Labels, claim.Labels) {
		return nil
	}
	if err := c.client.Patch(ctx, claim, client.MergeFrom(before), client.FieldOwner(names.FieldManager)); err != nil {
		return fmt.Errorf("put back the labels of the claim of host ports, ConfigMap %s: %w", client.ObjectKeyFromObject(claim), err)
	}
	return nil
}

func (c *Claims) deleteAll(ctx context.Context, claims []corev1.ConfigMap) error {
	for i := range claims {
		claim := &claims[i]
		err := c.client.Delete(ctx, claim, client.Preconditions{UID: &claim.UID})
		// A conflict means that the claim was deleted and made again: by its new holder.
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("release host ports: delete ConfigMap %s: %w", client.ObjectKeyFromObject(claim), err)
		}
	}
	return nil
}

func (c *Claims) claim(cluster client.ObjectKey, block int32) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: c.namespace,
			Name:      nameOf(c.pool, block),
			Labels:    names.ComponentLabels(cluster, Component),
		},
		Immutable: ptr.To(true),
		Data:      map[string]string{namespaceKey: cluster.Namespace, nameKey: cluster.Name},
	}
}

func holder(claim *corev1.ConfigMap) client.ObjectKey {
	return client.ObjectKey{Namespace: claim.Data[namespaceKey], Name: claim.Data[nameKey]}
}

// compareAge puts the claim first that was written first. Claims are never updated, so that their
// resource versions are in the order in which the API server accepted them.
func compareAge(a, b *corev1.ConfigMap) int {
	if order, err := resourceversion.CompareResourceVersion(a.ResourceVersion, b.ResourceVersion); err == nil && order != 0 {
		return order
	}
	return strings.Compare(a.Name, b.Name)
}

// nameOf is the name of the claim of a block. A pool has no dots in its name, so that no two blocks have one name.
func nameOf(pool string, first int32) string {
	name := namePrefix + strconv.Itoa(int(first))
	if pool != "" {
		name += "." + pool
	}
	return name
}

// blockOf is the block that a claim is named after: its port pool and its first port.
func blockOf(claim *corev1.ConfigMap) (pool string, first int32, err error) {
	number, pool, _ := strings.Cut(strings.TrimPrefix(claim.Name, namePrefix), ".")
	port, err := strconv.ParseUint(number, 10, 16)
	first = int32(port)
	// Another name for the same block would be a second claim of it.
	if err != nil || first == 0 || first%controlplanev1.PortBlockSize != 0 || Block(first).Last > math.MaxUint16 || claim.Name != nameOf(pool, first) {
		return "", 0, fmt.Errorf("ConfigMap %s has the labels of a claim of host ports and the name of none; delete it",
			client.ObjectKeyFromObject(claim))
	}
	return pool, first, nil
}
