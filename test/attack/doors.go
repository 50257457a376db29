package attack

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/e2e/probe"
)

// Door is what a worker's root dials.
type Door struct {
	// Target is whose it is, Paths are what only those may read who are let in.
	Target    string
	Addresses []string
	Paths     []string
}

// Dial shows every credential at every address of a door, from the worker, with TLS and, without a credential, without.
func (a *Attacker) Dial(ctx context.Context, report *Report, door Door, list []probe.Credential) error {
	refusals := map[string]int{}
	outcome := Outcome{Name: "the worker's root dials", Did: fmt.Sprintf("%d addresses, %d credentials, %q", len(door.Addresses), len(list), door.Paths), Target: door.Target}
	for _, address := range door.Addresses {
		for _, path := range door.Paths {
			answers := map[string]probe.Answer{}
			err := a.Worker.InNetwork(func() error {
				short, cancel := context.WithTimeout(ctx, 3*time.Second)
				answers["no TLS"] = probe.Plain(short, address, path)
				cancel()
				if silent := answers["no TLS"]; silent.Err != nil && !silent.Refused() {
					return nil // Nobody is reached there: no credential changes that.
				}
				for _, credential := range list {
					answers[credential.Name] = probe.TLS(ctx, address, credential, path)
				}
				return nil
			})
			if err != nil {
				return err
			}
			for name, answer := range answers {
				if answer.Err == nil && answer.Status < 300 {
					outcome.Succeeded, outcome.Remark = true, fmt.Sprintf("%s%s answered %s", address, path, name)
				}
				refusals[refusal(answer)]++
			}
		}
	}
	var said []string
	for text, count := range refusals {
		said = append(said, fmt.Sprintf("%d times %s", count, text))
	}
	slices.Sort(said)
	outcome.Stopped = strings.Join(said, ", ")
	report.Add(outcome)
	return nil
}

// refusal is how a door stays shut, without where.
func refusal(answer probe.Answer) string {
	text := answer.String()
	return strings.TrimSpace(text[strings.LastIndex(text, ": ")+1:])
}
