package kubeconfigs

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	certutil "k8s.io/client-go/util/cert"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/unit"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/files"
)

// firstPort is where the search for free ports begins: that of the load balancer on workers.
const firstPort = 6443

// folder has a person's kubeconfigs. Each takes two ports of this machine: the one in it, and the next.
type folder string

func (f folder) file(name string) string { return filepath.Join(string(f), name+unit.AdminSuffix) }

// port returns the port for a kubeconfig: wanted if it is set, else the port that the existing file has, else the first free
// one that no other kubeconfig has. An existing file of another cluster is an error. servers are the API servers of the cluster, host:port.
func (f folder) port(name string, stored *clientcmdapi.Config, servers []string, wanted uint16) (uint16, error) {
	if wanted == math.MaxUint16 {
		return 0, fmt.Errorf("--port %d has no port after it; choose a smaller one", wanted)
	}
	there, err := clientcmd.LoadFromFile(f.file(name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("read %s: %w; remove it if it is not needed", f.file(name), err)
	}
	if err == nil {
		if !ofOneCluster(there, stored, servers) {
			return 0, fmt.Errorf("%s is of another cluster; choose another --name, or remove it", f.file(name))
		}
		if port := portIn(there); port != 0 && wanted == 0 {
			return port, nil
		}
	}
	taken, err := f.taken(name)
	if err != nil {
		return 0, err
	}
	if other := taken[wanted] + taken[wanted+1]; wanted != 0 && other != "" {
		return 0, fmt.Errorf("--port %d: %s has this port or the next; choose another", wanted, other)
	}
	if wanted != 0 {
		return wanted, nil
	}
	for port := uint16(firstPort); port < math.MaxUint16-1; port += 2 {
		if taken[port]+taken[port+1] == "" && free(port) && free(port+1) {
			return port, nil
		}
	}
	return 0, errors.New("no two ports of 127.0.0.1 are free; name one by --port")
}

// ofOneCluster reports whether a kubeconfig that local made is of the cluster of a stored one. A CA is of one cluster: one that both trust is
// enough, also amid a rotation, when there are two. After a rotation they have none in common, and nobody keeps the former CA. Then the
// cluster has to have the same name, because its user chose the file by that, and an API server at the same address and port, because these
// are of one cluster at a time: another cluster of that name, in another namespace or another host cluster, has others. A kubeconfig for
// another machine has the cluster's endpoint in their place.
func ofOneCluster(there, stored *clientcmdapi.Config, servers []string) bool {
	was, is := current(there), current(stored)
	switch {
	case was == nil:
		return false
	case is == nil: // What makes the file says what is wrong with the stored one.
		return true
	case shareCA(was.CertificateAuthorityData, is.CertificateAuthorityData):
		return true
	}
	name := stored.Contexts[stored.CurrentContext].Cluster
	return there.Contexts[there.CurrentContext].Cluster == name && slices.ContainsFunc(append(serversIn(there), was.Server), func(server string) bool {
		return server == is.Server || slices.Contains(servers, strings.TrimPrefix(server, "https://"))
	})
}

func shareCA(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	ofA, errA := certutil.ParseCertsPEM(a)
	ofB, errB := certutil.ParseCertsPEM(b)
	return errA == nil && errB == nil && slices.ContainsFunc(ofA, func(ca *x509.Certificate) bool { return slices.ContainsFunc(ofB, ca.Equal) })
}

// taken are the ports of all other kubeconfigs, with their files. A file that cannot be read takes none.
func (f folder) taken(name string) (map[uint16]string, error) {
	kubeconfigs, err := filepath.Glob(filepath.Join(string(f), "*"+unit.AdminSuffix))
	if err != nil {
		return nil, err
	}
	taken := map[uint16]string{}
	for _, file := range kubeconfigs {
		if file == f.file(name) {
			continue
		}
		if config, err := clientcmd.LoadFromFile(file); err == nil {
			if port := portIn(config); port != 0 {
				taken[port], taken[port+1] = file, file
			}
		}
	}
	return taken, nil
}

func free(port uint16) bool {
	listener, err := net.Listen("tcp", loopback(port))
	if err != nil {
		return false
	}
	return listener.Close() == nil
}

// write replaces a kubeconfig of the folder, as writeFile does.
func (f folder) write(name string, config *clientcmdapi.Config) error {
	if err := os.MkdirAll(string(f), 0o700); err != nil {
		return err
	}
	return writeFile(f.file(name), config)
}

// writeFile replaces a kubeconfig completely, or not at all. At every moment only its owner can read it.
func writeFile(path string, config *clientcmdapi.Config) error {
	content, err := clientcmd.Write(*config)
	if err != nil {
		return err
	}
	if err := files.Replace(path, content); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
