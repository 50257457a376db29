package host

import (
	"errors"
	"fmt"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

const cutTable = "cloud-link"

// Cut drops, in both directions, what the router forwards between the sites. Nothing is answered: open connections
// hang, as they do when a line breaks. The machine itself still reaches both sites.
func Cut(n Network) error {
	return n.withRules(func(c *nftables.Conn) error {
		cut, err := isCut(c)
		if err != nil || cut {
			return err
		}
		table := c.AddTable(&nftables.Table{Name: cutTable, Family: nftables.TableFamilyINet})
		chain := c.AddChain(&nftables.Chain{
			Name: "forward", Table: table, Type: nftables.ChainTypeFilter,
			Hooknum: nftables.ChainHookForward, Priority: nftables.ChainPriorityFilter,
		})
		cloud, idc := n.name(SiteCloud), n.name(SiteIDC)
		for _, way := range [][2]string{{cloud, idc}, {idc, cloud}} {
			c.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{
				&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: 1},
				&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: linkName(way[0])},
				&expr.Meta{Key: expr.MetaKeyOIFNAME, Register: 1},
				&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: linkName(way[1])},
				&expr.Counter{},
				&expr.Verdict{Kind: expr.VerdictDrop},
			}})
		}
		return c.Flush()
	})
}

// Heal ends a Cut.
func Heal(n Network) error {
	return n.withRules(func(c *nftables.Conn) error {
		cut, err := isCut(c)
		if err != nil || !cut {
			return err
		}
		c.DelTable(&nftables.Table{Name: cutTable, Family: nftables.TableFamilyINet})
		return c.Flush()
	})
}

// IsCut tells whether the link between the sites is cut.
func IsCut(n Network) (cut bool, err error) {
	err = n.withRules(func(c *nftables.Conn) error {
		cut, err = isCut(c)
		return err
	})
	return cut, err
}

func isCut(c *nftables.Conn) (bool, error) { return hasTable(c, cutTable) }

// hasTable tells whether a namespace has a table of packet rules.
func hasTable(c *nftables.Conn, name string) (bool, error) {
	tables, err := c.ListTablesOfFamily(nftables.TableFamilyINet)
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return false, fmt.Errorf("list tables of packet rules: %w", err)
	}
	return slices.ContainsFunc(tables, func(t *nftables.Table) bool { return t.Name == name }), nil
}

// withRules gives a connection to the router's packet rules.
func (n Network) withRules(f func(*nftables.Conn) error) error { return withRulesIn(n.router(), f) }

// withRulesIn gives a connection to the packet rules of a network namespace of the lab.
func withRulesIn(name string, f func(*nftables.Conn) error) error {
	namespace, err := netns.GetFromName(name)
	if err != nil {
		return fmt.Errorf("network namespace %s is missing (is the lab up?): %w", name, err)
	}
	defer namespace.Close() //nolint:errcheck // only a descriptor
	c, err := nftables.New(nftables.WithNetNSFd(int(namespace)))
	if err != nil {
		return fmt.Errorf("packet rules of %s: %w", name, err)
	}
	return f(c)
}

// linkName is a link's name as the kernel compares it.
func linkName(name string) []byte {
	b := make([]byte, unix.IFNAMSIZ)
	copy(b, name)
	return b
}
