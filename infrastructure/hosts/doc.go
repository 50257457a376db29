// Package hosts is what is done on a host: look whether it can be made a machine (Probe), make it one
// with the host's own cloud-init (Bootstrap), and make it a plain host again (CleanUp).
//
// Every step asks the host first what is done already, so that each can be cut short and repeated. What
// a host is used for stands in a file on the host itself, the Record: a second inventory that names the
// same host sees it, and a clean-up knows what to take back.
//
// Programs are run with fixed arguments. What comes from users, such as bootstrap data, goes through
// standard input into files. Answers are read from formats made for programs: JSON, systemctl show,
// mountinfo, NUL-separated lists.
package hosts
