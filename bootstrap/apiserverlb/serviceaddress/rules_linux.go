package serviceaddress

import (
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// table is the name of our table of nftables. It is ours alone.
const table = "kok-apiserver-lb"

// header has the places of a header's fields.
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

// setRules replaces our table in one transaction. The rules send packets for the Service, from pods and from this machine, to
// the local port, and make answers come from the Service's port. Neither are tracked. Packets of this machine to itself pass
// output and then prerouting, which leaves them as output made them.
func setRules(service netip.AddrPort, port uint16) error {
	c := &nftables.Conn{}
	h := headerOf(service.Addr())
	t := c.AddTable(&nftables.Table{Family: h.family, Name: table})
	c.FlushTable(t)
	chain := func(name string, hook *nftables.ChainHook, rules ...[]expr.Any) {
		chain := c.AddChain(&nftables.Chain{Table: t, Name: name, Type: nftables.ChainTypeFilter, Hooknum: hook, Priority: nftables.ChainPriorityRaw})
		for _, rule := range rules {
			c.AddRule(&nftables.Rule{Table: t, Chain: chain, Exprs: rule})
		}
	}
	local := netip.AddrPortFrom(service.Addr(), port)
	question := append(matching(service, h.destination, destinationPort, h.length), redirected(port, destinationPort)...)
	answer := append(matching(local, h.source, sourcePort, h.length), redirected(service.Port(), sourcePort)...)
	chain("prerouting", nftables.ChainHookPrerouting, question)
	chain("output", nftables.ChainHookOutput, question, answer)
	return c.Flush()
}

// Places of fields in a TCP header.
const (
	sourcePort      = 0
	destinationPort = 2
	checksum        = 16
)

// matching matches TCP packets with the address and the port at the given places.
func matching(address netip.AddrPort, addressAt, portAt, length uint32) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{unix.IPPROTO_TCP}},
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: addressAt, Len: length},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: address.Addr().AsSlice()},
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: portAt, Len: 2},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binaryutil.BigEndian.PutUint16(address.Port())},
	}
}

// redirected excepts packets from connection tracking and writes a port into them.
func redirected(port uint16, portAt uint32) []expr.Any {
	return []expr.Any{
		&expr.Notrack{},
		&expr.Immediate{Register: 1, Data: binaryutil.BigEndian.PutUint16(port)},
		&expr.Payload{
			OperationType: expr.PayloadWrite, SourceRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: portAt, Len: 2,
			CsumType: expr.CsumTypeInet, CsumOffset: checksum,
		},
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
