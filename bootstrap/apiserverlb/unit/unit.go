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
	// CertificatesDir is kubelet's. It must be there before the unit is started, and kubelet may not have
	// run yet: systemd makes the unit's view of the file system of what is there.
	CertificatesDir = "/var/lib/kubelet/pki"
	// StateFile is where the unit lets the program keep its list of API servers: systemd keeps the state
	// of a dynamic user there, and the usual link to it is not in the unit's view of the file system.
	StateFile = onworker.LoadBalancerState + "backends.json"
	// AdminName is the unit of a person's own systemd; its instances are the kubeconfigs in AdminDir, by
	// their names without AdminSuffix.
	AdminName = "kok-apiserver-lb@.service"
	// AdminDir is in the person's home.
	AdminDir = ".kube/kok"
	// AdminSuffix is how the name of a kubeconfig ends.
	AdminSuffix = ".kubeconfig"
	// ServiceAddressPath is where the drop-in for a configuration with a serviceAddress is installed.
	ServiceAddressPath = Path + ".d/service-address.conf"
)

// Service is the unit. It serves loopback only and needs no privilege but to read kubelet's client
// certificate.
//
//go:embed kok-apiserver-lb.service
var Service string

// ServiceAddress is a drop-in with what it takes to have the address of the Service kubernetes. It is
// needed only with serviceAddress in the configuration.
//
//go:embed service-address.conf
var ServiceAddress string

// Admin is the unit of a person's own systemd. It needs no privilege.
//
//go:embed kok-apiserver-lb@.service
var Admin string
