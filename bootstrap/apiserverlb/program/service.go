package program

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/serviceaddress"
)

// repairInterval is how often the Service's address is taken again: a firewall that is started anew
// may drop our rules.
const repairInterval = 30 * time.Second

// service is the address of the Service kubernetes on this machine. What goes wrong with it is told
// and tried again; kubelet, which does not use it, is served all the same.
type service struct {
	address netip.AddrPort
	log     logr.Logger

	lock      sync.Mutex
	listening bool
	taken     bool
	ended     bool
	problem   string
}

// listen returns the listener at the address, nil when there can be none.
func (s *service) listen(ctx context.Context) *net.TCPListener {
	listener, err := serviceaddress.Listen(ctx, s.address)
	s.lock.Lock()
	defer s.lock.Unlock()
	if err != nil {
		s.note(err)
		return nil
	}
	s.listening = true
	return listener
}

// hold takes the address, and again when others undid that, until the context ends.
func (s *service) hold(ctx context.Context) {
	ticker := time.NewTicker(repairInterval)
	defer ticker.Stop()
	for {
		s.take()
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (s *service) take() {
	s.lock.Lock()
	defer s.lock.Unlock()
	if !s.listening || s.ended {
		return
	}
	err := serviceaddress.Take(s.address)
	if err != nil {
		s.note(err)
		return
	}
	if !s.taken {
		s.log.Info("Connections to the Service kubernetes come here", "Address", s.address.String())
	}
	s.taken, s.problem = true, ""
}

// giveBack gives the address back for good.
func (s *service) giveBack() {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.ended = true
	if err := serviceaddress.GiveBack(s.address); err != nil {
		s.log.Error(err, "Cannot give the address of the Service kubernetes back")
		return
	}
	s.taken = false
}

// note keeps a problem for the status, and logs it once. The lock is held.
func (s *service) note(err error) {
	if s.problem != err.Error() {
		s.log.Error(err, "Connections to the Service kubernetes do not come here")
	}
	s.taken, s.problem = false, err.Error()
}

func (s *service) state() (taken bool, problem string) {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.taken, s.problem
}
