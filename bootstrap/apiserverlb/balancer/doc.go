// Package balancer carries TCP connections to one of several backends. It never ends TLS: it moves
// bytes and knows one thing about them, that a TLS client speaks first.
//
// # Opening
//
// A connection is tried at one backend after the other until one of them sends a byte. A backend
// that refuses, or closes without a byte, is followed by the next at once. One that stays silent is
// hedged: after a short wait the same first bytes of the client, its ClientHello, go to another
// backend too, and the backend that answers first gets the connection. That is safe: a ClientHello that
// no server has answered binds the client to none. The wait grows when all servers are slow, so
// that hedging does not add to their load.
//
// # Carrying
//
// Two goroutines and two file descriptors a connection. A direction that is idle holds no buffer:
// it waits for bytes first and takes a buffer from a pool then.
//
// # Closing
//
// An end is passed on as what it was. A reset stays a reset: client-go sends a GET that was reset
// again by itself.
package balancer
