// Package controllers reconciles IDCHosts, IDCMachines and IDCClusters.
//
// A machine gets its host in three writes, each of which fails when another was faster: hostRef on the
// IDCMachine, then claim on the IDCHost, then providerID on the IDCMachine. A machine names one host at
// a time and a host one machine, so that whatever is cut short in between is either finished or taken
// back by the next reconcile of whichever controller. Work on a host begins after the third.
//
// Work on hosts runs in the background. What was learnt of a host is in status, and is learnt again
// after clusterctl moved the objects; what must not get lost is in spec.
package controllers
