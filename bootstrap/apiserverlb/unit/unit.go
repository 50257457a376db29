// Package unit has the systemd unit of the load balancer and the paths of all files that it needs,
// for the code that installs it.
package unit

import (
	_ "embed"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/onworker"
)

const (
	// Name is the unit's name.
	Name = onworker.LoadBalancerUnit
	// Path is where the unit is installed.
	Path = onworker.UnitDir + Name
	// Program is the program's name. The unit finds it in any directory of the system's path.
	Program = "kok-apiserver-lb"
	// CertificatesDir is kubelet's. Make it before the unit starts, because kubelet may not have run yet, and systemd builds
	// the unit's view of the file system from what exists then.
	CertificatesDir = "/var/lib/kubelet/pki"
	// StateFile is where the unit lets the program keep its list of API servers: systemd keeps the state
	// of a dynamic user there, and the usual link to it is not in the unit's view of the file system.
	StateFile = onworker.LoadBalancerState + "backends.json"
	// AdminName is the unit of a person's own systemd; its instances are the kubeconfigs in AdminDir, by
	// their names without AdminSuffix.
	AdminName = "kok-apiserver-lb@.service"
	// AdminDir is in the person's home.
	AdminDir = ".kube/kok"
	// AdminSuffix is the ending of a kubeconfig's name.
	AdminSuffix = ".kubeconfig"
	// ServiceAddressPath is where the drop-in for a configuration with a serviceAddress is installed.
	ServiceAddressPath = Path + ".d/service-address.conf"
)

// Service is the unit. It serves on loopback only. Its only privilege is to read kubelet's client certificate.
//
//go:embed kok-apiserver-lb.service
var Service string

// ServiceAddress is a drop-in with the privileges to take the address of the Service kubernetes. It is needed only with
// serviceAddress in the configuration.
//
//go:embed service-address.conf
var ServiceAddress string

// Admin is the unit of a person's own systemd. It needs no privilege.
//
//go:embed kok-apiserver-lb@.service
var Admin string
