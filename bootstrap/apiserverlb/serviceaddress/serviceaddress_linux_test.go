//go:build root

package serviceaddress

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// localPort is where connections to the Service arrive.
const localPort = 6443

// family is a Service and a network for it.
type family struct {
	service       netip.AddrPort
	services      netip.Prefix
	node, gateway netip.Addr
	pod           netip.Addr
}

var families = map[string]family{
	"IPv4": {
		netip.MustParseAddrPort("10.96.0.1:443"), netip.MustParsePrefix("10.96.0.0/12"),
		netip.MustParseAddr("10.0.0.5"), netip.MustParseAddr("10.244.0.1"), netip.MustParseAddr("10.244.0.2"),
	},
	"IPv6": {
		netip.MustParseAddrPort("[fd00:96::1]:443"), netip.MustParsePrefix("fd00:96::/112"),
		netip.MustParseAddr("fd00::5"), netip.MustParseAddr("fd00:244::1"), netip.MustParseAddr("fd00:244::2"),
	},
}

// worker is a network of its own with that of a pod beside it.
type worker struct {
	family
	t        *testing.T
	own, pod netns.NsHandle
}

// newWorker needs root. The test stays on one thread: names are resolved and sockets made in the namespace of the thread.
func newWorker(t *testing.T, f family) *worker {
	t.Helper()
	runtime.LockOSThread()
	home, err := netns.Get()
	must(t, err)
	w := &worker{t: t, family: f}
	w.pod, err = netns.New()
	if err != nil {
		t.Fatalf("make a network namespace, which needs root: %v", err)
	}
	setUp(t, loopback)
	w.own, err = netns.New()
	must(t, err)
	t.Cleanup(func() {
		if err := netns.Set(home); err != nil {
			// The thread ends with its goroutine, in whatever namespace it is.
			return
		}
		_ = w.own.Close()
		_ = w.pod.Close()
		_ = home.Close()
		runtime.UnlockOSThread()
	})
	w.connect()
	return w
}

// connect makes the interfaces and routes of the worker and its pod.
func (w *worker) connect() {
	w.t.Helper()
	lo := setUp(w.t, loopback)
	must(w.t, netlink.AddrAdd(lo, onLoopback(w.node)))
	// There must be a way to the network of Services, although kube-proxy changes it later. Without an address of the
	// node to come from, IPv4 would come from none.
	way := &netlink.Route{LinkIndex: lo.Attrs().Index, Dst: network(w.services), Src: w.node.AsSlice()}
	must(w.t, netlink.RouteAdd(way))
	must(w.t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "pod"}, PeerName: "eth0", PeerNamespace: netlink.NsFd(w.pod)}))
	w.link("pod", w.gateway, w.family.pod)
	w.inPod(func() {
		eth := w.link("eth0", w.family.pod, w.gateway)
		must(w.t, netlink.RouteAdd(&netlink.Route{LinkIndex: eth.Attrs().Index, Gw: w.gateway.AsSlice()}))
	})
}

// link gives one end of the pod's link its address, and a way to the other end.
func (w *worker) link(name string, address, peer netip.Addr) netlink.Link {
	w.t.Helper()
	link := setUp(w.t, name)
	computeChecksums(w.t, name)
	must(w.t, netlink.AddrAdd(link, &netlink.Addr{IPNet: network(netip.PrefixFrom(address, address.BitLen())), Flags: unix.IFA_F_NODAD}))
	must(w.t, netlink.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Scope: netlink.SCOPE_LINK, Dst: network(netip.PrefixFrom(peer, peer.BitLen()))}))
	return link
}

func (w *worker) inPod(do func()) {
	w.t.Helper()
	must(w.t, netns.Set(w.pod))
	defer func() { must(w.t, netns.Set(w.own)) }()
	do()
}

// expect asks who answers at an address, from this machine and from a pod.
func (w *worker) expect(address netip.AddrPort, want string) {
	w.t.Helper()
	expect(w.t, "this machine", address, want)
	w.inPod(func() { expect(w.t, "a pod", address, want) })
}

// listen answers connections to the Service.
func (w *worker) listen() {
	w.t.Helper()
	listener, err := Listen(w.t.Context(), netip.AddrPortFrom(w.service.Addr(), localPort))
	must(w.t, err)
	answer(w.t, listener, "here")
}

func (w *worker) take() {
	w.t.Helper()
	must(w.t, Take(w.service, localPort))
	w.isLocal()
}

func setUp(t *testing.T, name string) netlink.Link {
	t.Helper()
	link, err := netlink.LinkByName(name)
	must(t, err)
	must(t, netlink.LinkSetUp(link))
	return link
}

// computeChecksums has an interface send whole checksums, as one of hardware does: between two of the kernel's own nobody
// looks at them.
func computeChecksums(t *testing.T, name string) {
	t.Helper()
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	must(t, err)
	defer func() { _ = unix.Close(socket) }()
	off := &struct{ command, data uint32 }{unix.ETHTOOL_STXCSUM, 0}
	request := &struct {
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte
	}{data: unsafe.Pointer(off)}
	copy(request.name[:], name)
	if _, _, failure := unix.Syscall(unix.SYS_IOCTL, uintptr(socket), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(request))); failure != 0 {
		t.Fatalf("switch checksums of %s by hardware off: %v", name, failure)
	}
}

func network(prefix netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: prefix.Addr().AsSlice(), Mask: net.CIDRMask(prefix.Bits(), prefix.Addr().BitLen())}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// rules adds a chain to a table of somebody else's.
func (w *worker) rules(table string, kind nftables.ChainType, hook *nftables.ChainHook, priority nftables.ChainPriority, rule ...expr.Any) {
	w.t.Helper()
	c := &nftables.Conn{}
	t := c.AddTable(&nftables.Table{Family: headerOf(w.service.Addr()).family, Name: table})
	chain := c.AddChain(&nftables.Chain{Table: t, Name: fmt.Sprint("hook-", *hook), Type: kind, Hooknum: hook, Priority: &priority})
	c.AddRule(&nftables.Rule{Table: t, Chain: chain, Exprs: rule})
	must(w.t, c.Flush())
}

// kubeProxy redirects connections to the Service elsewhere, as kube-proxy does, and drops new ones to other ports of its
// address, which the nftables mode does in its way.
func (w *worker) kubeProxy() {
	w.t.Helper()
	elsewhere, err := net.Listen("tcp", ":0")
	must(w.t, err)
	answer(w.t, elsewhere, "elsewhere")
	h := headerOf(w.service.Addr())
	port := binaryutil.BigEndian.PutUint16(uint16(elsewhere.Addr().(*net.TCPAddr).Port))
	redirect := append(matching(w.service, h.destination, destinationPort, h.length),
		&expr.Immediate{Register: 1, Data: port}, &expr.Redir{RegisterProtoMin: 1})
	w.rules("kube-proxy", nftables.ChainTypeNAT, nftables.ChainHookPrerouting, *nftables.ChainPriorityNATDest, redirect...)
	w.rules("kube-proxy", nftables.ChainTypeNAT, nftables.ChainHookOutput, *nftables.ChainPriorityNATDest, redirect...)
	state := binaryutil.NativeEndian.PutUint32(expr.CtStateBitNEW)
	w.rules("kube-proxy", nftables.ChainTypeFilter, nftables.ChainHookInput, *nftables.ChainPriorityFilter,
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: h.destination, Len: h.length},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: w.service.Addr().AsSlice()},
		&expr.Ct{Key: expr.CtKeySTATE, Register: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: state, Xor: make([]byte, 4)},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: make([]byte, 4)},
		&expr.Verdict{Kind: expr.VerdictDrop})
}

// ipvs has the Service's address on an interface that is down, and takes what comes to the Service's port where IPVS does
// it, after all translation: connections end there.
func (w *worker) ipvs() {
	w.t.Helper()
	device := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "kube-ipvs0"}, PeerName: "peer"}
	must(w.t, netlink.LinkAdd(device))
	must(w.t, netlink.AddrAdd(device, onLoopback(w.service.Addr())))
	h := headerOf(w.service.Addr())
	taken := append(matching(w.service, h.destination, destinationPort, h.length), &expr.Verdict{Kind: expr.VerdictDrop})
	w.rules("ipvs", nftables.ChainTypeFilter, nftables.ChainHookInput, *nftables.ChainPriorityNATSource-2, taken...)
	w.rules("ipvs", nftables.ChainTypeFilter, nftables.ChainHookOutput, *nftables.ChainPriorityNATDest+1, taken...)
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

func expect(t *testing.T, who string, address netip.AddrPort, want string) {
	t.Helper()
	connection, err := net.DialTimeout("tcp", address.String(), 10*time.Second)
	if err != nil {
		t.Fatalf("%s expected %q: %v", who, want, err)
	}
	defer func() { _ = connection.Close() }()
	must(t, connection.SetDeadline(time.Now().Add(10*time.Second)))
	if got, err := io.ReadAll(connection); err != nil || string(got) != want {
		t.Fatalf("%s was answered %q, %v, expected %q", who, got, err, want)
	}
}

func TestConnectionsComeHereWhileTheAddressIsTaken(t *testing.T) {
	for name, family := range families {
		t.Run(name, func(t *testing.T) {
			w := newWorker(t, family)
			w.kubeProxy()
			w.listen()
			w.expect(w.service, "elsewhere")
			for range 2 {
				w.take()
				w.expect(w.service, "here")
			}
			for range 2 {
				must(t, GiveBack(w.service))
				w.expect(w.service, "elsewhere")
			}
			w.leavesNothing()
		})
	}
}

func TestTheServicesPortIsLeftToProgramsOfThisMachine(t *testing.T) {
	for name, family := range families {
		t.Run(name, func(t *testing.T) {
			w := newWorker(t, family)
			w.listen()
			w.take()
			everywhere, err := net.Listen("tcp", ":443")
			must(t, err)
			answer(t, everywhere, "ingress")
			w.expect(w.service, "here")
			w.expect(netip.AddrPortFrom(w.node, 443), "ingress")
		})
	}
}

func TestConnectionsComeHereWhereIPVSHasTheAddressToo(t *testing.T) {
	for name, family := range families {
		t.Run(name+", IPVS first", func(t *testing.T) {
			w := newWorker(t, family)
			w.ipvs()
			w.listen()
			w.take()
			w.expect(w.service, "here")
			must(t, GiveBack(w.service))
			w.isLocal()
		})
		t.Run(name+", IPVS second", func(t *testing.T) {
			w := newWorker(t, family)
			w.listen()
			w.take()
			w.ipvs()
			w.take()
			w.expect(w.service, "here")
			must(t, GiveBack(w.service))
			w.isLocal()
		})
	}
}

// IPv6 is off on some machines, and their kernel takes rules for it all the same.
func TestWhatCannotBeTakenLeavesNothing(t *testing.T) {
	w := newWorker(t, families["IPv6"])
	must(t, os.WriteFile("/proc/sys/net/ipv6/conf/lo/disable_ipv6", []byte("1"), 0o600))
	if err := Take(w.service, localPort); err == nil {
		t.Fatal("it was taken")
	}
	w.leavesNothing()
}

// isLocal waits for the kernel to know an IPv6 address as its own, which it does some moments after it
// was added.
func (w *worker) isLocal() {
	w.t.Helper()
	deadline := time.After(10 * time.Second)
	for {
		routes, err := netlink.RouteGet(w.service.Addr().AsSlice())
		if err == nil && len(routes) > 0 && routes[0].Type == unix.RTN_LOCAL {
			return
		}
		select {
		case <-deadline:
			w.t.Fatalf("%s is not local: %v, %v", w.service.Addr(), routes, err)
		case <-time.After(time.Millisecond):
		}
	}
}

func (w *worker) leavesNothing() {
	w.t.Helper()
	addresses, err := netlink.AddrList(nil, netlink.FAMILY_ALL)
	must(w.t, err)
	for _, left := range addresses {
		if left.IP.Equal(w.service.Addr().AsSlice()) {
			w.t.Errorf("%s is still there", left)
		}
	}
	tables, err := (&nftables.Conn{}).ListTables()
	must(w.t, err)
	for _, left := range tables {
		if left.Name == table {
			w.t.Error("the rules are still there")
		}
	}
}

func TestTakeRepairsWhatOthersUndid(t *testing.T) {
	w := newWorker(t, families["IPv4"])
	w.listen()
	w.take()
	c := &nftables.Conn{}
	c.FlushRuleset()
	must(t, c.Flush())
	w.kubeProxy()
	w.expect(w.service, "elsewhere")
	w.take()
	w.expect(w.service, "here")
}
