package processes

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
)

// listening is the state of a listening socket in /proc/net/tcp.
const listening = "0A"

// Listeners are the addresses at which a process accepts TCP connections.
func Listeners(pid int) ([]netip.AddrPort, error) {
	sockets, err := socketsOf(pid)
	if err != nil {
		return nil, fmt.Errorf("read the sockets of process %d: %w", pid, err)
	}
	var addresses []netip.AddrPort
	for _, table := range []string{"tcp", "tcp6"} {
		// The table is of the network namespace that the process is in.
		data, err := os.ReadFile(file(pid, "net", table))
		if err != nil {
			return nil, fmt.Errorf("read the sockets of process %d's network: %w", pid, err)
		}
		found, err := parseTable(string(data))
		if err != nil {
			return nil, err
		}
		for socket, address := range found {
			if sockets[socket] {
				addresses = append(addresses, address)
			}
		}
	}
	slices.SortFunc(addresses, netip.AddrPort.Compare)
	return addresses, nil
}

// socketsOf are the inodes of the sockets that a process has open.
func socketsOf(pid int) (map[string]bool, error) {
	entries, err := os.ReadDir(file(pid, "fd"))
	if err != nil {
		return nil, err
	}
	sockets := map[string]bool{}
	for _, entry := range entries {
		target, err := os.Readlink(file(pid, "fd", entry.Name()))
		if gone(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if inode, ok := strings.CutPrefix(target, "socket:["); ok {
			sockets[strings.TrimSuffix(inode, "]")] = true
		}
	}
	return sockets, nil
}

// parseTable gives the listening sockets of a table like /proc/net/tcp by inode; see proc_pid_net(5).
func parseTable(table string) (map[string]netip.AddrPort, error) {
	found := map[string]netip.AddrPort{}
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if len(fields) < 10 || fields[3] != listening {
			continue
		}
		address, err := parseAddress(fields[1])
		if err != nil {
			return nil, err
		}
		found[fields[9]] = address
	}
	return found, nil
}

// parseAddress reads "0100007F:1F90": the address in 32-bit words of the machine's order, which on
// every machine that the lab runs on is little-endian, and the port.
func parseAddress(text string) (netip.AddrPort, error) {
	host, port, ok := strings.Cut(text, ":")
	raw, err := hex.DecodeString(host)
	number, err2 := strconv.ParseUint(port, 16, 16)
	if !ok || err != nil || err2 != nil || len(raw)%4 != 0 {
		return netip.AddrPort{}, fmt.Errorf("%q is no address of a socket", text)
	}
	for word := range slices.Chunk(raw, 4) {
		slices.Reverse(word)
	}
	address, ok := netip.AddrFromSlice(raw)
	if !ok {
		return netip.AddrPort{}, fmt.Errorf("%q is no address of a socket", text)
	}
	return netip.AddrPortFrom(address.Unmap(), uint16(number)), nil
}
