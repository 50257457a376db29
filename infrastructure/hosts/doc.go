// Package hosts runs commands as root on a host, and reads and changes its files, mounts and units. Its folders have what is
// done with that:
//
//   - probe checks whether a host can be made a machine, and ownership decides whose it is.
//   - bootstrap makes it a machine with the host's own cloud-init, which cloudinit seeds and watches.
//   - cleanup notes what a machine will change, and makes the host a plain host again. Each part of a host is undone where it
//     is noted: accounts, containerd, network and koksoftware. footprint reads what bootstrap data add.
//   - records has the Record, a file on the host that says which machine the host carries. A second inventory with the same
//     host sees it, and a clean-up finds there what to undo.
//
// Each step reads from the host what is done already, so that it can be cut off and repeated.
//
// Programs run with fixed arguments. Data of users, such as bootstrap data, goes through standard input into files. Output
// is read in formats made for programs: JSON, systemctl show, mountinfo, NUL-separated lists.
package hosts
