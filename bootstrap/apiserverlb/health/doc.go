// Package health finds out in which state each backend is.
//
// A probe requests /readyz of a backend over one TLS connection that is kept, together with an HTTP/2 ping: the ping shows
// that the process lives even when /readyz hangs. kube-apiserver answers /readyz to all clients, but keeps connections only
// of clients with a certificate; each anonymous request costs a new TLS handshake. So the probe shows the node's certificate
// if there is one. When it is missing, expired or refused, the backend is not to blame, and the probe goes on anonymously.
// When this machine cannot probe a backend at all, because its CA file is broken, the backend keeps its state, and its
// reason says so.
//
// Backends are probed every few seconds while all is well, and several times a second when something looks wrong: a probe
// has no answer, a new connection fails or stays silent, or bytes that went to a backend bring none back.
//
// A backend whose answers are late, but come, is not probed more often: a loaded machine needs no more probes. When a late
// answer has ended a doubt twice in a row, the next answer may take twice as long before there is a doubt, then four times
// and so on, until one is in time again.
//
// # Dead by silence
//
// Closing connections is the only way to bring clients back soon from a server that hangs, and the worst thing to do to one
// that works. So a probe counts as silent only when all of this is true:
//
//   - Nothing at all came from the backend meanwhile, not even bytes of the connections that it carries.
//   - Another backend did answer meanwhile: so neither the network nor this machine is to blame.
//   - The timers of this process were not late: so this machine has enough CPU time.
//
// A backend with three such probes in a row gets no new connections. One with eight, which take two seconds, is dead, and
// the connections that it carries are reset. Only a sign of life starts the count anew.
package health
