package network

import (
	"bytes"
	"fmt"

	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts"
)

// script is the input of a command that removes what a node left.
type script struct {
	bytes.Buffer
	kept *hosts.Kept
}

// add adds a line. It fails when the host has more to remove than the manager keeps.
func (s *script) add(line string) error {
	if err := s.kept.Add(line); err != nil {
		return fmt.Errorf("%w; restart the host, which ends what a machine left there", err)
	}
	s.WriteString(line)
	return nil
}
