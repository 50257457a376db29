//go:build lab

package host

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"testing"
	"time"
)

// Hosts without power, on a network beside that of a lab that may be up.
func TestHostsAreSeparatedAtOnePortOrAtEveryPort(t *testing.T) {
	n, state := Network{
		Prefix:   "koksep",
		Cloud:    netip.MustParsePrefix("10.216.0.0/24"),
		IDC:      netip.MustParsePrefix("10.226.0.0/24"),
		Uplink:   netip.MustParsePrefix("10.236.0.0/30"),
		Pods:     netip.MustParsePrefix("10.246.0.0/16"),
		Services: netip.MustParsePrefix("10.249.0.0/16"),
	}, t.TempDir()
	var hosts []*Host
	t.Cleanup(func() {
		for _, h := range hosts {
			must(t, h.unwire())
		}
		must(t, RemoveNetwork(n))
		if left, err := Leftovers(n, state); err != nil || len(left) > 0 {
			t.Errorf("left are %v, %v", left, err)
		}
	})
	must(t, EnsureNetwork(t.Context(), n))
	for _, name := range []string{"idc-1", "idc-2", "idc-3"} {
		h, err := New(n, state, name)
		must(t, err)
		hosts = append(hosts, h)
		must(t, h.wire())
	}
	const peers, clients = 2380, 2379
	heard := map[string]chan string{}
	for _, h := range hosts {
		for _, port := range []int{peers, clients} {
			address := net.JoinHostPort(h.Address.String(), strconv.Itoa(port))
			heard[address] = make(chan string, 100)
			h.listen(t, address, heard[address])
		}
	}
	reaches := func(from, to *Host, port int, want bool) bool {
		_, ok := from.open(t, to, port, want)
		return ok
	}
	// expect expects that some hosts and the first one do not reach each other at some ports, and that all others do.
	expect := func(when string, cut []int, separated ...*Host) {
		t.Helper()
		for _, other := range hosts[1:] {
			for _, port := range []int{peers, clients} {
				want := !slices.Contains(separated, other) || !slices.Contains(cut, port)
				if got := reaches(hosts[0], other, port, want); got != want {
					t.Errorf("%s: %s reaches port %d of %s: %t", when, hosts[0].Name, port, other.Name, got)
				}
				if got := reaches(other, hosts[0], port, want); got != want {
					t.Errorf("%s: %s reaches port %d of %s: %t", when, other.Name, port, hosts[0].Name, got)
				}
			}
		}
		if !reaches(hosts[1], hosts[2], peers, true) {
			t.Errorf("%s: others do not reach each other", when)
		}
	}
	expect("before", nil)
	others, onlyPeers := []netip.Addr{hosts[1].Address, hosts[2].Address}, []int{peers}
	must(t, hosts[0].Separate(Separation{Port: peers, Hosts: others}))
	expect("separated", onlyPeers, hosts[1:]...)
	must(t, hosts[0].Rejoin())
	must(t, hosts[0].Rejoin())
	expect("joined again", nil)
	must(t, hosts[0].Separate(Separation{Port: peers, Hosts: others[:1]}))
	expect("separated from one", onlyPeers, hosts[1])
	must(t, hosts[0].Rejoin())

	must(t, hosts[0].Separate(Separation{Hosts: others[:1]}))
	expect("separated from one at every port", []int{peers, clients}, hosts[1])
	must(t, hosts[0].Rejoin())
	expect("joined again at every port", nil)

	// Both ways are open before: what either says then tells which way is cut.
	towards, _ := hosts[0].open(t, hosts[1], peers, true)
	back, _ := hosts[1].open(t, hosts[0], peers, true)
	must(t, hosts[0].Separate(Separation{Port: peers, Hosts: others, OneWay: true}))
	expect("separated one way", onlyPeers, hosts[1:]...)
	say(t, towards, "lost")
	say(t, back, "heard")
	await(t, heard[back.RemoteAddr().String()], "heard")
	select {
	case text := <-heard[towards.RemoteAddr().String()]:
		t.Errorf("%s is heard", text)
	default:
	}
	must(t, hosts[0].Rejoin())
	await(t, heard[towards.RemoteAddr().String()], "lost")
}

// listen answers nothing, and notes what it hears.
func (h *Host) listen(t *testing.T, address string, heard chan<- string) {
	t.Helper()
	var listener net.Listener
	must(t, h.InNetwork(func() (err error) { listener, err = net.Listen("tcp", address); return err }))
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				text := make([]byte, 100)
				for {
					count, err := connection.Read(text)
					if err != nil {
						return
					}
					heard <- string(text[:count])
				}
			}()
		}
	}()
}

// open opens a connection. One that is not expected has less time for it.
func (h *Host) open(t *testing.T, to *Host, port int, expected bool) (net.Conn, bool) {
	t.Helper()
	patience := 200 * time.Millisecond
	if expected {
		patience = time.Minute
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	connection, err := h.Dial(ctx, "tcp", net.JoinHostPort(to.Address.String(), strconv.Itoa(port)))
	if err != nil {
		return nil, false
	}
	t.Cleanup(func() { _ = connection.Close() })
	return connection, true
}

func say(t *testing.T, to net.Conn, text string) {
	t.Helper()
	_, err := to.Write([]byte(text))
	must(t, err)
}

func await(t *testing.T, heard <-chan string, want string) {
	t.Helper()
	select {
	case text := <-heard:
		if text != want {
			t.Errorf("%q is heard, not %q", text, want)
		}
	case <-time.After(time.Minute):
		t.Errorf("%q is not heard", want)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
