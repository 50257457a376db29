package floor

import (
	"errors"
	"fmt"
	"net"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/ports"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
)

// CheckPorts says on which hosts something else listens at a port that a floor needs.
func CheckPorts(hosts []*host.Host) error {
	block := ports.Block(firstPort)
	needed := []int32{components.DefaultAPIServerPort}
	for port := block.First; port <= block.Last; port++ {
		needed = append(needed, port)
	}
	var problems []error
	for _, h := range hosts {
		var taken []string
		err := h.InNetwork(func() (err error) {
			taken, err = inUse(needed)
			return err
		})
		if len(taken) > 0 {
			err = fmt.Errorf("%s uses TCP ports %s, which the control plane of plain processes needs: bin/lab exec %s -- ss -ltnp shows the programs",
				h.Name, strings.Join(taken, ", "), h.Name)
		}
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// inUse are the ports that somebody listens at, at whatever address.
func inUse(ports []int32) (taken []string, err error) {
	for _, port := range ports {
		listener, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
		switch {
		case errors.Is(err, unix.EADDRINUSE):
			taken = append(taken, fmt.Sprint(port))
		case err != nil:
			return nil, err
		default:
			_ = listener.Close()
		}
	}
	return taken, nil
}
