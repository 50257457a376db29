// Package balancer carries TCP connections to one of several backends. It never ends TLS: it moves
// bytes and knows one thing about them, that a TLS client speaks first.
//
// # Opening
//
// The balancer tries one backend after the other until one of them sends a byte. When a backend refuses, or closes without a
// byte, the next is tried at once. When a backend stays silent, the balancer hedges: after a short wait it sends the same
// first bytes of the client, the ClientHello, to another backend as well, and the backend that answers first gets the
// connection. That is safe, because a ClientHello without an answer binds the client to no server. The wait grows when all
// servers are slow, so that hedging does not add to their load.
//
// # Carrying
//
// A connection takes two goroutines and two file descriptors. An idle direction holds no buffer: it waits for bytes first,
// and then takes a buffer from a pool.
//
// # Closing
//
// The end of one side is passed on to the other in the same form. A reset stays a reset, because client-go repeats a GET
// that was reset.
package balancer
