// Package registers asks whether what clients see through the API servers of a tenant is linearizable: whether each write and each
// read could have happened at one moment between its call and its return, so that every read brings the write before it.
//
// A register is a ConfigMap with one value. Clients, each bound to one API server, write and read a few of them, and every value is
// written once at most. A write that failed or timed out is open: it may have happened at its call, at any later time, or never. A
// write whose connection was refused is none. A read that failed says nothing. porcupine judges each register by itself.
package registers
