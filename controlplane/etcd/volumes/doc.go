// Package volumes has volume claims of an etcd cluster ask for another size, when a person wants its volumes larger. Which of them do is
// decided by Decide, which is pure.
package volumes
