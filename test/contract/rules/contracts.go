package rules

// All are the contracts of all providers.
func All() []Contract {
	return []Contract{ControlPlane(), BootstrapConfig(), InfraCluster(), InfraMachine()}
}

// ControlPlane is the contract of control plane providers. Ours has no Machines: its instances are pods.
func ControlPlane() Contract {
	const machines = "no instance of a control plane is a Machine"
	return Contract{Name: "ControlPlane", Kind: "KOKControlPlane", Page: "control-plane", Untested: map[string]string{
		"ControlPlane: machines":                   machines,
		"ControlPlane: in-place updates":           machines,
		"Machine placement":                        machines + "; topology constraints spread pods over zones",
		"Metadata propagation":                     machines,
		"MinReadySeconds and UpToDate propagation": machines,
	}}
}

// BootstrapConfig is the contract of bootstrap providers.
func BootstrapConfig() Contract {
	return Contract{Name: "BootstrapConfig", Kind: "KOKConfig", Page: "bootstrap-config"}
}

// InfraCluster is the contract of infrastructure providers for a Cluster.
func InfraCluster() Contract {
	return Contract{Name: "InfraCluster", Kind: "IDCCluster", Page: "infra-cluster", Untested: map[string]string{
		"InfraCluster: terminal failures": "nothing is made for a cluster, so nothing can fail",
		"Multi tenancy":                   "an IDCCluster has no credentials, its IDCHosts have: see InfraMachine, whose test has the watch filter of IDCClusters too",
	}}
}

// InfraMachine is the contract of infrastructure providers for a Machine.
func InfraMachine() Contract {
	return Contract{Name: "InfraMachine", Kind: "IDCMachine", Page: "infra-machine", Untested: map[string]string{
		"InfraMachine: support for in-place changes":                  "no field of an IDCMachine can be changed in place",
		"InfraMachineTemplate: support cluster autoscaling from zero": "a template says what a host must have, not what it has",
	}}
}
