// Package hostclusters connects to the host clusters of control planes whose pods run in another cluster than
// the management cluster.
//
// A control plane names a Secret with a kubeconfig. Each named Secret has one connection. It is opened in the
// background, and no reconcile waits for it. A reconcile that asks for a host cluster gets it, or a *Problem that
// says why it is not available, and is woken when that changes. Another content of the Secret is another
// connection, with an identity of its own, and ends the one before: its caches stop and its requests fail. When
// no control plane names the Secret any more, the connection ends.
//
// A token of a service account that ends is renewed before, by a request of the account itself, and written into
// the Secret. What is not renewed in time a person is told.
//
// The Secret is read each time that a host cluster is asked for, which is about once a minute; nothing
// watches or caches Secrets of people. A control plane that is being deleted goes on with the connection that there
// is when its Secret was deleted before, which for that reason lasts some seconds longer.
package hostclusters
