package ports

import (
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// HeldError says that another holder has claimed the block.
type HeldError struct {
	// First is the first port of the block.
	First int32
	// Claim is the object that claims it.
	Claim client.ObjectKey
	// Holder is the Cluster that holds it; empty if the object is not a claim.
	Holder client.ObjectKey
}

// Error names the block, its holder and the way out.
func (e *HeldError) Error() string {
	if e.Holder == (client.ObjectKey{}) {
		return fmt.Sprintf("host ports %s cannot be claimed: ConfigMap %s is in the way and is no claim; delete it or choose another hosting.ports.first",
			Block(e.First), e.Claim)
	}
	return fmt.Sprintf("host ports %s belong to Cluster %s (claim: ConfigMap %s); choose another hosting.ports.first, or leave it out to get a free block",
		Block(e.First), e.Holder, e.Claim)
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
	// Blocks is how many there are in it.
	Blocks int32
}

// Error names the range and the way out.
func (e *ExhaustedError) Error() string {
	return fmt.Sprintf("all %d blocks of host ports in %s are claimed; give the manager a wider range with --host-port-range, or delete a Cluster that is not needed",
		e.Blocks, e.Range)
}
