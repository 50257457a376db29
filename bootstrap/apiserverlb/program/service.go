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

// repairInterval is how often the Service's address is taken again: a restart of a firewall may drop our rules.
const repairInterval = 30 * time.Second

// service is the address of the Service kubernetes on this machine. Failures are reported, and
// tried again. kubelet does not use this address and is served meanwhile.
type service struct {
	// address is the Service's. local is where connections to it arrive.
	address, local netip.AddrPort
	serve          func(*net.TCPListener)
	log            logr.Logger

	lock     sync.Mutex
	listener *net.TCPListener
	taken    bool
	ended    bool
	problem  string
}

// hold takes the address and serves there until the context ends. It takes the address again when others undid that.
func (s *service) hold(ctx context.Context) {
	var serving sync.WaitGroup
	defer serving.Wait()
	ticker := time.NewTicker(repairInterval)
	defer ticker.Stop()
	for {
		s.take(ctx, &serving)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (s *service) take(ctx context.Context, serving *sync.WaitGroup) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.ended {
		return
	}
	if s.listener == nil {
		listener, err := serviceaddress.Listen(ctx, s.local)
		if err != nil {
			s.note(err)
			return
		}
		s.listener = listener
		serving.Go(func() { s.serve(listener) })
	}
	if err := serviceaddress.Take(s.address, s.local.Port()); err != nil {
		s.note(err)
		return
	}
	if !s.taken {
		s.log.Info("Connections to the Service kubernetes come here", "Address", s.address.String())
	}
	s.taken, s.problem = true, ""
}

// close ends serving for good.
func (s *service) close() {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.ended = true
	if s.listener != nil {
		_ = s.listener.Close()
	}
}

// giveBack gives the address back. close must have been called before.
func (s *service) giveBack() {
	s.lock.Lock()
	defer s.lock.Unlock()
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
