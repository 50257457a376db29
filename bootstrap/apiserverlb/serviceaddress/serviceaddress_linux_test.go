package serviceaddress

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// inNamespace runs a test in a network of its own, which needs root. It stays on one thread: names are
// resolved and sockets made in the namespace of the thread.
func inNamespace(t *testing.T) {
	t.Helper()
	runtime.LockOSThread()
	home, err := netns.Get()
	if err != nil {
		t.Fatal(err)
	}
	own, err := netns.New()
	if err != nil {
		t.Fatalf("make a network namespace, which needs root: %v", err)
	}
	t.Cleanup(func() {
		if err := netns.Set(home); err != nil {
			// The thread ends with its goroutine, in whatever namespace it is.
			return
		}
		_ = own.Close()
		_ = home.Close()
		runtime.UnlockOSThread()
	})
	link, err := netlink.LinkByName(loopback)
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		t.Fatal(err)
	}
}

// kubeProxy redirects connections to the address elsewhere, as kube-proxy does, and returns what is
// answered there.
func kubeProxy(t *testing.T, address netip.AddrPort) {
	t.Helper()
	elsewhere, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	answer(t, elsewhere, "elsewhere")
	c := &nftables.Conn{}
	h := headerOf(address.Addr())
	nat := c.AddTable(&nftables.Table{Family: h.family, Name: "kube-proxy"})
	chain := c.AddChain(&nftables.Chain{
		Table: nat, Name: "services", Type: nftables.ChainTypeNAT, Hooknum: nftables.ChainHookOutput, Priority: nftables.ChainPriorityNATDest,
	})
	match := untracked(address, h.destination, 2, h.length)
	port := binary.BigEndian.AppendUint16(nil, uint16(elsewhere.Addr().(*net.TCPAddr).Port))
	c.AddRule(&nftables.Rule{Table: nat, Chain: chain, Exprs: append(match[:len(match)-1],
		&expr.Immediate{Register: 1, Data: port}, &expr.Redir{RegisterProtoMin: 1},
	)})
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
}

// answer has a listener answer each connection with a word.
func answer(t *testing.T, listener net.Listener, word string) {
	t.Helper()
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			accepted, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(accepted, word)
			_ = accepted.Close()
		}
	}()
}

// expect asks who answers at the address.
func expect(t *testing.T, address netip.AddrPort, want string) {
	t.Helper()
	connection, err := net.DialTimeout("tcp", address.String(), 10*time.Second)
	if err != nil {
		t.Fatalf("expected %q: %v", want, err)
	}
	defer func() { _ = connection.Close() }()
	if err := connection.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(connection); err != nil || string(got) != want {
		t.Fatalf("answered %q, %v, expected %q", got, err, want)
	}
}

func TestConnectionsComeHereWhileTheAddressIsTaken(t *testing.T) {
	for _, test := range []struct{ address, network, node string }{
		{"10.96.0.1:443", "10.96.0.0/12", "10.0.0.5"}, {"[fd00:96::1]:443", "fd00:96::/112", ""},
	} {
		t.Run(test.address, func(t *testing.T) {
			inNamespace(t)
			address := netip.MustParseAddrPort(test.address)
			// There must be a way to the network of Services, although kube-proxy changes it later.
			link, err := netlink.LinkByName(loopback)
			if err != nil {
				t.Fatal(err)
			}
			_, network, err := net.ParseCIDR(test.network)
			if err != nil {
				t.Fatal(err)
			}
			way := &netlink.Route{LinkIndex: link.Attrs().Index, Dst: network}
			if test.node != "" {
				// Without an address of the node to come from, IPv4 would come from none.
				node := netip.MustParseAddr(test.node)
				if err := netlink.AddrAdd(link, onLoopback(node)); err != nil {
					t.Fatal(err)
				}
				way.Src = node.AsSlice()
			}
			if err := netlink.RouteAdd(way); err != nil {
				t.Fatal(err)
			}
			kubeProxy(t, address)
			listener, err := Listen(t.Context(), address)
			if err != nil {
				t.Fatal(err)
			}
			answer(t, listener, "here")
			expect(t, address, "elsewhere")
			for range 2 {
				if err := Take(address); err != nil {
					t.Fatal(err)
				}
				isLocal(t, address.Addr())
				expect(t, address, "here")
			}
			for range 2 {
				if err := GiveBack(address); err != nil {
					t.Fatal(err)
				}
				expect(t, address, "elsewhere")
			}
			leavesNothing(t, address)
		})
	}
}

// isLocal waits for the kernel to know an IPv6 address as its own, which it does some moments after it
// was added.
func isLocal(t *testing.T, address netip.Addr) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for {
		routes, err := netlink.RouteGet(address.AsSlice())
		if err == nil && len(routes) > 0 && routes[0].Type == unix.RTN_LOCAL {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("%s is not local: %v, %v", address, routes, err)
		case <-time.After(time.Millisecond):
		}
	}
}

func leavesNothing(t *testing.T, address netip.AddrPort) {
	t.Helper()
	addresses, err := netlink.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		t.Fatal(err)
	}
	for _, left := range addresses {
		if left.IP.Equal(address.Addr().AsSlice()) {
			t.Errorf("%s is still there", left)
		}
	}
	tables, err := (&nftables.Conn{}).ListTables()
	if err != nil {
		t.Fatal(err)
	}
	for _, left := range tables {
		if left.Name == table {
			t.Error("the rules are still there")
		}
	}
}

func TestTakeRepairsWhatOthersUndid(t *testing.T) {
	inNamespace(t)
	address := netip.MustParseAddrPort("10.96.0.1:443")
	if err := Take(address); err != nil {
		t.Fatal(err)
	}
	c := &nftables.Conn{}
	c.FlushRuleset()
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := Take(address); err != nil {
		t.Fatal(err)
	}
	chains, err := c.ListChains()
	if err != nil || len(chains) != 2 {
		t.Fatalf("%d chains, %v", len(chains), err)
	}
	for _, chain := range chains {
		rules, err := c.GetRules(chain.Table, chain)
		if err != nil || len(rules) != 2 {
			t.Errorf("chain %s has %d rules, %v", chain.Name, len(rules), err)
		}
		for _, rule := range rules {
			if compare, ok := rule.Exprs[3].(*expr.Cmp); !ok || !bytes.Equal(compare.Data, address.Addr().AsSlice()) {
				t.Errorf("chain %s does not match the address: %+v", chain.Name, rule.Exprs[3])
			}
		}
	}
}

func TestAnAddressThatIPVSHoldsIsNotTaken(t *testing.T) {
	inNamespace(t)
	ipvs := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "kube-ipvs0"}, PeerName: "peer"}
	if err := netlink.LinkAdd(ipvs); err != nil {
		t.Fatal(err)
	}
	address := netip.MustParseAddrPort("10.96.0.1:443")
	if err := netlink.AddrAdd(ipvs, onLoopback(address.Addr())); err != nil {
		t.Fatal(err)
	}
	if err := Take(address); err == nil || !strings.Contains(err.Error(), "on kube-ipvs0 already") {
		t.Errorf("got %v", err)
	}
}
