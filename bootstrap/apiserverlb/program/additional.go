package program

import (
	"context"
	"net"
	"strconv"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/balancer"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/configuration"
)

// serveAdditional serves at an additional listener until the context ends. It reports once that it
// cannot listen at an address, and tries again. kubelet does not use this listener and is served
// meanwhile.
func (p *Program) serveAdditional(ctx context.Context, wanted configuration.Listener) {
	log := p.log.WithValues("Address", wanted.ListenAddress)
	told := false
	for ctx.Err() == nil {
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", wanted.ListenAddress)
		if err == nil {
			log.Info("Serving another port of the API servers' hosts", "BackendPort", wanted.BackendPort)
			stop := context.AfterFunc(ctx, func() { _ = listener.Close() })
			p.balancer.Serve(balancer.Listener{
				TCPListener: listener.(*net.TCPListener), BackendPort: strconv.Itoa(wanted.BackendPort), Gate: p.gate(wanted.ListenAddress),
			})
			stop()
			return
		}
		if !told {
			log.Error(err, "Cannot listen for another port of the API servers' hosts, trying again", "BackendPort", wanted.BackendPort)
			told = true
		}
		select {
		case <-ctx.Done():
		case <-time.After(repairInterval):
		}
	}
}
