// Package controllers reconciles IDCHosts, IDCMachines and IDCClusters.
//
// A machine gets its host in three writes, which package claims makes. Each fails when another write was faster: hostRef on the
// IDCMachine, then claim on the IDCHost, then providerID on the IDCMachine. A machine names one host at
// a time, and a host names one machine: so the next reconcile of either controller can finish or undo an interrupted claim.
// Work on the host begins after the third write.
//
// Work on hosts runs in the background. Spec holds what must not get lost: clusterctl move keeps it. Status holds what can
// be observed again after a move.
package controllers
