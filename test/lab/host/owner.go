package host

import (
	"fmt"

	"github.com/vishvananda/netlink"
)

// Claim marks a network that EnsureNetwork made as used by the lab of a state directory; it fails when that of another
// one uses it.
func Claim(n Network, stateDirectory string) error {
	owner, err := Owner(n)
	if err != nil {
		return err
	}
	if owner != "" && owner != stateDirectory {
		return fmt.Errorf("the lab in %s is up on this machine: take it down first (lab down --state %s)", owner, owner)
	}
	link, err := netlink.LinkByName(n.name("lab"))
	if err == nil {
		err = netlink.LinkSetAlias(link, stateDirectory)
	}
	if err != nil {
		return fmt.Errorf("mark the lab's network: %w", err)
	}
	return nil
}

// Owner is the state directory of the lab that uses a network; none when the network is not there.
func Owner(n Network) (string, error) {
	link, err := netlink.LinkByName(n.name("lab"))
	if isMissing(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("look for the lab's network: %w", err)
	}
	return link.Attrs().Alias, nil
}
