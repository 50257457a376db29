// Package mounted reads what an agent is given as files: keys, the store of snapshots, and the folder of the manager's Secret.
// Files are bounded, and no message has what is in one that is secret.
package mounted
