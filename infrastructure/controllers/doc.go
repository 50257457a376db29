// Package controllers reconciles IDCHosts, IDCMachines and IDCClusters.
//
// A machine gets its host in three writes. Each fails when another write was faster: hostRef on the
// IDCMachine, then claim on the IDCHost, then providerID on the IDCMachine. A machine names one host at
// a time and a host names one machine. So the next reconcile of either controller finishes or takes
// back what was interrupted. Work on a host begins after the third.
//
// Work on hosts runs in the background. Status holds what can be observed again after clusterctl
// moved the objects. Spec holds what must not get lost.
package controllers
