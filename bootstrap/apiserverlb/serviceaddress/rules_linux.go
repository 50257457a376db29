package serviceaddress

import (
	"encoding/binary"
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// table is the name of our table of nftables. It is ours alone.
const table = "kok-apiserver-lb"

// header is where a header has its fields.
type header struct {
	family      nftables.TableFamily
	source      uint32
	destination uint32
	length      uint32
}

func headerOf(address netip.Addr) header {
	if address.Is4() {
		return header{nftables.TableFamilyIPv4, 12, 16, 4}
	}
	return header{nftables.TableFamilyIPv6, 8, 24, 16}
}

// setRules replaces our table by one that excepts the address from connection tracking, in one
// transaction.
func setRules(address netip.AddrPort) error {
	c := &nftables.Conn{}
	h := headerOf(address.Addr())
	t := c.AddTable(&nftables.Table{Family: h.family, Name: table})
	c.FlushTable(t)
	for name, hook := range map[string]*nftables.ChainHook{
		"prerouting": nftables.ChainHookPrerouting,
		"output":     nftables.ChainHookOutput,
	} {
		chain := c.AddChain(&nftables.Chain{
			Table: t, Name: name, Type: nftables.ChainTypeFilter, Hooknum: hook, Priority: nftables.ChainPriorityRaw,
		})
		// What comes to the address, and what it answers, also to this machine itself.
		c.AddRule(&nftables.Rule{Table: t, Chain: chain, Exprs: untracked(address, h.destination, 2, h.length)})
		c.AddRule(&nftables.Rule{Table: t, Chain: chain, Exprs: untracked(address, h.source, 0, h.length)})
	}
	return c.Flush()
}

// untracked matches TCP packets with the address and the port at the given places.
func untracked(address netip.AddrPort, addressAt, portAt, length uint32) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{unix.IPPROTO_TCP}},
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: addressAt, Len: length},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: address.Addr().AsSlice()},
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: portAt, Len: 2},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binary.BigEndian.AppendUint16(nil, address.Port())},
		&expr.Notrack{},
	}
}

func removeRules(address netip.AddrPort) error {
	c := &nftables.Conn{}
	family := headerOf(address.Addr()).family
	tables, err := c.ListTablesOfFamily(family)
	if err != nil {
		return err
	}
	for _, t := range tables {
		if t.Name == table {
			c.DelTable(t)
			return c.Flush()
		}
	}
	return nil
}
