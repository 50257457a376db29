package beside

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// recovery is how long tenants may take that had too little of the processors meanwhile.
const recovery = 5 * time.Minute

// Recovered waits until every tenant that was available is so again. One that somebody deletes meanwhile counts as well.
func (o *Others) Recovered(ctx context.Context) error {
	var failing []Tenant
	err := wait.PollUntilContextTimeout(ctx, time.Second, recovery, true, func(ctx context.Context) (bool, error) {
		now, err := tenants(ctx, o.reader, "")
		failing = worse(o.Tenants, now)
		return len(failing) == 0, err
	})
	if err == nil {
		return nil
	}
	for _, t := range failing {
		err = errors.Join(err, fmt.Errorf("tenant %s was available before and is not now: %s\n  look next at: kubectl --namespace %s describe cluster %s",
			t.Key, t.Problem, t.Key.Namespace, t.Key.Name))
	}
	return fmt.Errorf("wait until other tenants are as before: %w", err)
}

// worse are the tenants that were available before and are not now.
func worse(before, now []Tenant) []Tenant {
	was := map[client.ObjectKey]bool{}
	for _, t := range before {
		was[t.Key] = t.Available
	}
	var failing []Tenant
	for _, t := range now {
		if was[t.Key] && !t.Available && !t.Deleting {
			failing = append(failing, t)
		}
	}
	return failing
}
