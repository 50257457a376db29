// Package ssh runs commands on hosts. It logs in only to servers whose host key is pinned, ends with its context, notices a
// peer that fell silent, and says with every failure what a person can do.
//
// A command is a list of arguments. SSH sends one string, which the user's login shell splits again (RFC 4254, section 6.5):
// each argument is quoted, so that it arrives unchanged.
package ssh
