// Package volumes decides which volume claims of an etcd cluster ask for another size, when a person wants its volumes larger. It is pure.
package volumes
