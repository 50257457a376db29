// Package discovery learns where the API servers are from the EndpointSlice default/kubernetes, which
// every API server keeps, and remembers it on disk for the next start.
//
// It watches that one object and nothing else, with the identity of the node, through the load
// balancer itself. So its own watch moves to another API server like every other connection. An
// EndpointSlice without an address is never believed.
package discovery
