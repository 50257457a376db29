// Package health finds out in which state each backend is.
//
// Each backend is asked for /readyz over one TLS connection that is kept, together with an HTTP/2 ping:
// the ping shows that the process lives even when /readyz hangs. kube-apiserver answers /readyz to all
// clients, but keeps a connection only for a client with a certificate: each anonymous request costs a
// new TLS handshake. So the probe shows the node's certificate if there is one. When that is missing,
// expired or refused, the backend is not to blame, and the probe asks anonymously. A backend that this
// machine cannot ask at all, as the file of the CA is broken, keeps its state, and its reason says so.
//
// Backends are asked every few seconds while all is well, and several times a second when something
// looks wrong: a probe without an answer, a failed or silent new connection, bytes that went to a
// backend without any coming back.
//
// A backend whose answers are late, but come, is asked no more often for it: probes are the last thing
// that a loaded machine needs. When a late answer has dispelled a doubt twice in a row, the next one may
// take twice as long before there is a doubt, then four times and so on, until one is in time again.
//
// # Dead by silence
//
// Closing connections is the only way to bring clients back soon from a server that hangs, and the
// worst thing to do to one that works. A probe counts as silent only when nothing at all came from
// the backend meanwhile, not even bytes of the connections that it carries; when another backend did
// answer meanwhile, so that it is not the network or this machine; and when the timers of this
// process were not late, so that it is not this machine that starves. After three such probes
// the backend gets no new connections; after eight, which take two seconds, it is dead, and those that it carries are
// reset. Signs of life start the count anew, and nothing else does.
package health
