// Package cloudinit turns a KOKConfig and what is known of its cluster into a cloud-config document
// that makes a machine a node. It is pure: no client, no clock, and the same input gives the same
// bytes.
//
// The document never mixes fixed text with values of users. It is marshalled from typed structs; files are base64; commands
// are lists of arguments. Two formats need quoting: a command line in a systemd unit, and an environment file. One function
// each writes them, and refuses what it cannot write. Render returns an error rather than a document that differs from its
// input.
//
// On the machine, cloud-init writes the files and starts kok-bootstrap.service. That unit runs the steps of the bootstrap in
// order: downloads, the user's commands, containerd, the load balancer, kubelet, the user's later commands, and last the
// sentinel file of Cluster API's bootstrap contract. systemd stops at the first step that fails, and names it. cloud-init by
// itself would go on.
package cloudinit
