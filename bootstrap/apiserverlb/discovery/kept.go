package discovery

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/files"
)

// longestList is how many bytes of the file are read: far more than mostServers have.
const longestList = 64 << 10

// kept is what the file holds.
type kept struct {
	// Backends are the API servers that the EndpointSlice listed last, as host:port.
	Backends []string `json:"backends"`
}

// Load reads the API servers that Save kept. There are none when the file does not exist. A file that
// cannot be read is an error. A caller may log it and go on with the seeds.
func Load(path string) ([]string, error) {
	content, err := readBounded(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the kept list of API servers: %w", err)
	}
	var k kept
	if err := json.Unmarshal(content, &k); err != nil {
		return nil, fmt.Errorf("read the kept list of API servers in %s: %w", path, err)
	}
	if len(k.Backends) > mostServers {
		return nil, fmt.Errorf("read the kept list of API servers in %s: it has %d, more than %d", path, len(k.Backends), mostServers)
	}
	for _, address := range k.Backends {
		if _, _, err := net.SplitHostPort(address); err != nil {
			return nil, fmt.Errorf("read the kept list of API servers in %s: %w", path, err)
		}
	}
	return k.Backends, nil
}

// readBounded reads a file that is no longer than a list can be.
func readBounded(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(io.LimitReader(file, longestList+1))
	if err == nil && len(content) > longestList {
		err = fmt.Errorf("it is longer than %d bytes", longestList)
	}
	return content, errors.Join(err, file.Close())
}

// Save keeps the API servers for the next start. The file is complete at any moment, even after a power failure.
func Save(path string, backends []string) error {
	if err := files.Replace(path, encode(backends)); err != nil {
		return fmt.Errorf("keep the list of API servers: %w", err)
	}
	return nil
}

func encode(backends []string) []byte {
	content, _ := json.Marshal(kept{Backends: backends}) // Strings always marshal.
	return append(content, '\n')
}
