// Package hosts works on a host: Probe checks whether it can be made a machine, Bootstrap makes it one with the host's own
// cloud-init, and CleanUp makes it a plain host again.
//
// Every step first reads from the host what is done already: so each can be cut off and repeated. A file on the host itself,
// the Record, says which machine the host carries. A second inventory with the same host sees it, and a clean-up finds
// there what to undo.
//
// Programs run with fixed arguments. Data of users, such as bootstrap data, goes through standard input into files. Output
// is read in formats made for programs: JSON, systemctl show, mountinfo, NUL-separated lists.
package hosts
