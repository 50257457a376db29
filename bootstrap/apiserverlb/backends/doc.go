// Package backends holds the API servers that the load balancer knows: which of them are members, in
// which state each is, and which connections it carries.
//
// Members come from two lists. Seeds are in the configuration and are never forgotten. Listed
// addresses come from the EndpointSlice default/kubernetes, or, until it was read, from what an
// earlier run kept on disk. Both lists count until the EndpointSlice was read in this run. After that, a seed that it does
// not list is used only when nothing else answers.
package backends
