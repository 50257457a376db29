package ports

import (
	"errors"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/flow"
)

// HeldError says that another holder has claimed the block.
type HeldError struct {
	// First is the first port of the block.
	First int32
	// Pool is the port pool of the block; empty for none.
	Pool string
	// Claim is the object that claims it.
	Claim client.ObjectKey
	// Holder is the Cluster that holds it; empty if the object is not a claim.
	Holder client.ObjectKey
}

// Error names the block, its holder and the way out.
func (e *HeldError) Error() string {
	if e.Holder == (client.ObjectKey{}) {
		return fmt.Sprintf("host ports %s cannot be claimed: ConfigMap %s is in the way and is no claim; delete it or choose another hosting.ports.first",
			blockIn(e.Pool, e.First), e.Claim)
	}
	return fmt.Sprintf("host ports %s belong to Cluster %s (claim: ConfigMap %s); choose another hosting.ports.first, or leave it out to get a free block",
		blockIn(e.Pool, e.First), e.Holder, e.Claim)
}

// OutsideError says that a block is outside the range of control planes, where other programs may
// listen.
type OutsideError struct {
	// First is the first port of the block.
	First int32
	// Range is where blocks are claimed from.
	Range Span
}

// Error names the block, the range and the way out.
func (e *OutsideError) Error() string {
	return fmt.Sprintf("host ports %s are not in %s, the range of control planes; give the manager a range with --host-port-range that contains them, or make the control plane anew without hosting.ports",
		Block(e.First), e.Range)
}

// ExhaustedError says that every block of the range is claimed.
type ExhaustedError struct {
	// Range is where blocks are claimed from.
	Range Span
	// Pool is the port pool of the blocks; empty for none.
	Pool string
	// Blocks is how many there are in it.
	Blocks int32
}

// Error names the range, the port pool and the ways out.
func (e *ExhaustedError) Error() string {
	return fmt.Sprintf("all %d blocks of host ports in %s%s are claimed; give the manager a wider range with --host-port-range, delete a Cluster that is not needed, "+
		"or make the control plane anew in another port pool, hosting.portPool", e.Blocks, e.Range, of(e.Pool))
}

// blockIn names a block for people.
func blockIn(pool string, first int32) string { return Block(first).String() + of(pool) }

func of(pool string) string {
	if pool == "" {
		return ""
	}
	return " of port pool " + pool
}

// ClaimFailed is the result of a claim that failed. A block that another holds, one outside of the range and a range
// without a free block are for a person.
func ClaimFailed(err error) flow.Result {
	var held *HeldError
	var outside *OutsideError
	var exhausted *ExhaustedError
	if errors.As(err, &held) || errors.As(err, &outside) || errors.As(err, &exhausted) {
		return flow.Blocked(conditionsv1.ReconcileFailedReason, err)
	}
	return flow.Failed(err)
}
