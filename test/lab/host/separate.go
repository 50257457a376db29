package host

import (
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

const separateTable = "lab-separate"

// Separation drops packets of TCP between a host and others: nothing is answered, and what is open hangs.
type Separation struct {
	// Port is the one at which it drops them, on whichever side it is; 0 for every port.
	Port  uint16
	Hosts []netip.Addr
	// OneWay has the host hear the others, who do not hear it.
	OneWay bool
}

// Separate separates the host from others, until Rejoin. What it was separated from before is as it was.
func (h *Host) Separate(s Separation) error {
	return withRulesIn(h.namespace(), func(c *nftables.Conn) error {
		table := c.AddTable(&nftables.Table{Name: separateTable, Family: nftables.TableFamilyINet})
		// Before the host's own rules change addresses, and after.
		s.drop(c, table, "sent", nftables.ChainHookPostrouting, nftables.ChainPriorityLast, destinationOffset)
		if !s.OneWay {
			s.drop(c, table, "received", nftables.ChainHookPrerouting, nftables.ChainPriorityRaw, sourceOffset)
		}
		return c.Flush()
	})
}

// Rejoin ends what Separate began.
func (h *Host) Rejoin() error {
	return withRulesIn(h.namespace(), func(c *nftables.Conn) error {
		there, err := hasTable(c, separateTable)
		if err != nil || !there {
			return err
		}
		c.DelTable(&nftables.Table{Name: separateTable, Family: nftables.TableFamilyINet})
		return c.Flush()
	})
}

// Where addresses are in the header of IPv4, and ports in that of TCP.
const (
	sourceOffset, destinationOffset         = 12, 16
	sourcePortOffset, destinationPortOffset = 0, 2
)

// drop drops what has the address of another host at one place of its header, and the port on either side.
func (s Separation) drop(c *nftables.Conn, table *nftables.Table, name string, hook *nftables.ChainHook, priority *nftables.ChainPriority, address uint32) {
	chain := c.AddChain(&nftables.Chain{Name: name, Table: table, Type: nftables.ChainTypeFilter, Hooknum: hook, Priority: priority})
	equal := func(data []byte) expr.Any { return &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: data} }
	for _, other := range s.Hosts {
		between := []expr.Any{
			&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1}, equal([]byte{unix.NFPROTO_IPV4}),
			&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1}, equal([]byte{unix.IPPROTO_TCP}),
			&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: address, Len: 4}, equal(other.AsSlice()),
		}
		verdict := []expr.Any{&expr.Counter{}, &expr.Verdict{Kind: expr.VerdictDrop}}
		if s.Port == 0 {
			c.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: slices.Concat(between, verdict)})
			continue
		}
		for _, port := range []uint32{sourcePortOffset, destinationPortOffset} {
			at := []expr.Any{&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: port, Len: 2}, equal(binaryutil.BigEndian.PutUint16(s.Port))}
			c.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: slices.Concat(between, at, verdict)})
		}
	}
}
