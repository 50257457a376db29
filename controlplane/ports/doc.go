// Package ports gives every tenant a block of host ports of its own, and says which component listens
// where in it.
//
// A block is claimed by creating an object named after its first port in one namespace of the host
// cluster. The API server lets only one creator win, so that two managers, or one that was killed and
// started again, never give a block away twice; there is no other lock and no list of everything. The
// object says which Cluster holds the block, and is written before the block is written anywhere
// else. In a port pool each block can be claimed anew: the name of the object has the pool, too.
//
// A claim is an immutable ConfigMap. It never expires, unlike what a Lease stands for, its holder
// cannot be edited, and the manager needs no right to update it.
package ports
