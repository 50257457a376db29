package kubeconfigs

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// replaceable refuses a file of --output that is there and is not a short-lived kubeconfig of the cluster: a person's own kubeconfig may have keys
// of other clusters that are nowhere else. An empty file has nothing to lose. servers are the API servers of the cluster, host:port.
func replaceable(path string, stored *clientcmdapi.Config, servers []string) error {
	if path == "-" {
		return nil
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("look at the file of --output: %w", err)
	case !info.Mode().IsRegular():
		return fmt.Errorf("--output %s is not a file: name one, or - for standard output", path)
	case info.Size() == 0:
		return nil
	}
	there, err := clientcmd.LoadFromFile(path)
	switch {
	case err != nil:
		return fmt.Errorf("--output %s is there, and cannot be read as a kubeconfig: %w; nothing is replaced: name another file, or move that one away", path, err)
	case !isHandedOver(there):
		return fmt.Errorf("--output %s is there, and an earlier --output did not write it: nothing is replaced; name another file, or move that one away", path)
	case !ofOneCluster(there, stored, servers):
		return fmt.Errorf("--output %s is there, and is of another cluster: nothing is replaced; name another file, or move that one away", path)
	}
	return nil
}

// isHandedOver reports whether a kubeconfig has what handOver writes, and nothing that a person merged into it.
func isHandedOver(there *clientcmdapi.Config) bool {
	users := slices.Collect(maps.Keys(there.AuthInfos))
	return len(there.Clusters) == 1 && len(there.Contexts) == 1 && len(users) == 1 && strings.HasPrefix(users[0], userPrefix)
}
