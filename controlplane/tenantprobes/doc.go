// Package tenantprobes is all that the manager asks the APIs of tenants beside reconciles, and writes to them. A reconcile hands over a
// probe, reads the last result, and is woken by another one (package probe).
//
//	Tenants.Of          is the way to one tenant's API, behind the guard that bounds what the tenant answers (api.go)
//	API.UID             asks for what tells one tenant from another (api.go)
//	Keeper.ForMachines  brings what machines need to join (machines.go, objects.go)
//	Keeper.Addons       brings the addons (addons.go, objects.go)
//	Keeper.Kubelets     reads whether kubelets allow an upgrade (kubelets.go)
//
// What tenants hold is decided elsewhere: packages tenant and addons render it. Package keyrotation has probes of its own, and reaches tenants
// as this package does.
package tenantprobes
