// Package byhand says by which command a person removes a member of etcd that the manager leaves alone. It is pure: package operator knows
// in whose pods commands work, packages recovery and membership know whom a person may remove.
package byhand

import (
	"maps"
	"slices"
	"strconv"
)

// Run is what comes before a command in a message. The command goes on to the end of the line.
const Run = "run: "

// Etcdctl begins a command of etcdctl in the pod of each member that can carry it out, by the names of these members.
type Etcdctl map[string]string

// Remove is the command by which a person removes a member, or what to do first where no pod can run it.
func (e Etcdctl) Remove(member string, id uint64) string {
	return e.remove(member, strconv.FormatUint(id, 16))
}

// RemoveOne is Remove with the word ID in place of the ID of the member that the person chooses.
func (e Etcdctl) RemoveOne() string { return e.remove("", "ID") }

// remove takes the pod of the first other member: the same state has the same text, and no member answers for its own removal.
func (e Etcdctl) remove(member, id string) string {
	for _, other := range slices.Sorted(maps.Keys(e)) {
		if other != member {
			return Run + e[other] + " member remove " + id
		}
	}
	return "bring back another member that votes, in whose pod etcdctl can do it"
}
