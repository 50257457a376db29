// Package ssh runs commands on hosts. It talks only to servers whose host key is pinned, ends with
// its context, notices a peer that fell silent, and says of every failure what a person can do about
// it.
//
// A command is a list of arguments. The SSH protocol hands a server one string, which the user's login
// shell takes apart again (RFC 4254, section 6.5): each argument is quoted, so that it arrives as it
// was given.
package ssh
