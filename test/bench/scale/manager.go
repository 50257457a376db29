package main

import (
	"cmp"
	"context"
	"path/filepath"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/manager"
)

const (
	// portRange is the widest range of host ports that the manager takes, and blocks is how many tenants fit into it.
	portRange = "1024-29999"
	blocks    = 1448
	// perPool is how many tenants a port pool has where there are more tenants than blocks. The last free blocks of a pool take many tries.
	perPool = 1000
)

// startManager starts the program, and returns when its webhooks are served.
func startManager(ctx context.Context, s *stage, o *options) (*manager.Process, error) {
	return manager.Start(ctx, &s.Stage, manager.Program{
		Path: o.manager, Log: filepath.Join(cmp.Or(o.profiles, s.Folder), "manager.log"), Controllers: []string{"kokcontrolplane"},
		Flags: append([]string{
			"--host-port-namespace=" + managerNamespace, "--kubernetes-versions-namespace=" + managerNamespace, "--host-port-range=" + portRange,
			"--etcd-agent-image=ghcr.io/kube-on-kube/kok-etcd-agent:dev", "--node-keys-image=ghcr.io/kube-on-kube/kok-node-keys:dev",
		}, o.managerFlags...),
	})
}
