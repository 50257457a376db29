// Package etcdfaults is the table that make test-faults ends with: what was done to the etcd of a tenant, and what came of it,
// one row a fault. Specs hand their rows over as entries of ginkgo's report, so that one that failed has a row, too.
package etcdfaults
