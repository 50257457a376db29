// Package backup measures what a snapshot of an etcd with 1 GiB of data takes, and what it costs those who use the member meanwhile.
package backup
