package program

import (
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/balancer"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/configuration"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/status"
)

// statusConnections bounds the connections to the status server. Others wait.
const statusConnections = 64

// gate is the gate of a listener, with its bounds.
type gate struct {
	*balancer.Gate
	address        string
	all, perSource int
}

// gatesOf makes a gate for each listener, so that clients of one take nothing from the others.
func gatesOf(c *configuration.Configuration, b configuration.Bounds) []*gate {
	var gates []*gate
	add := func(address string, all, perSource int) {
		gates = append(gates, &gate{balancer.NewGate(all, perSource), address, all, perSource})
	}
	add(c.ListenAddress, b.Listen, 0)
	if c.ServiceAddress != "" {
		add(c.ServiceAddress, b.Service, b.PerSource)
	}
	for _, listener := range c.AdditionalListeners {
		add(listener.ListenAddress, b.Additional, 0)
	}
	return gates
}

// gate is the gate of the listener at an address.
func (p *Program) gate(address string) *balancer.Gate {
	for _, g := range p.gates {
		if g.address == address {
			return g.Gate
		}
	}
	return nil
}

// listeners reports for each listener how many connections are open, and the bounds.
func (p *Program) listeners() []status.Listener {
	all := make([]status.Listener, len(p.gates))
	for i, g := range p.gates {
		open, refused := g.State()
		all[i] = status.Listener{Address: g.address, Open: open, Max: g.all, MaxPerSource: g.perSource, Refused: refused}
	}
	return all
}
