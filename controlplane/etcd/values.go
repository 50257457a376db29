package etcd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// Registry begins the keys of all that API servers store.
	Registry = "/registry/"

	// valuesPage is the most keys that a page has, and valuesBytes the most bytes. Etcd takes values of 1.5 MiB.
	valuesPage  = 500
	valuesBytes = 4 << 20
	// valuesTimeout bounds a page.
	valuesTimeout = 30 * time.Second
)

// EachValue calls do with each key that API servers store, and with its value, in the order of the keys. It starts at the key from, or at
// the first one if from is empty, and stops when do returns false. It returns the key to go on from, which is empty after the last key. do
// must not keep the value. EachValue reads pages at different times: each page has all that was acknowledged before EachValue asked for the
// page.
func EachValue(ctx context.Context, members map[string]Address, config *tls.Config, from string, do func(key string, value []byte) (more bool)) (next string, err error) {
	client, err := dialFor(ctx, slices.Collect(maps.Values(members)), config, valuesBytes)
	if err != nil {
		return from, err
	}
	defer client.Close() //nolint:errcheck // Nothing was written through it.
	if from == "" {
		from = Registry
	}
	for limit := int64(valuesPage); ; {
		page, err := valuesFrom(ctx, client, from, limit)
		if status.Code(err) == codes.ResourceExhausted && limit > 1 { // The page has too many bytes.
			limit = max(limit/4, 1)
			continue
		}
		if err != nil {
			return from, err
		}
		for _, kv := range page.Kvs {
			from = string(kv.Key) + "\x00"
			if !do(string(kv.Key), kv.Value) {
				return from, nil
			}
		}
		if !page.More {
			return "", nil
		}
		limit = min(2*limit, valuesPage)
	}
}

func valuesFrom(ctx context.Context, client *clientv3.Client, from string, limit int64) (*clientv3.GetResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, valuesTimeout)
	defer cancel()
	page, err := client.Get(ctx, from, clientv3.WithRange(clientv3.GetPrefixRangeEnd(Registry)), clientv3.WithLimit(limit))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the data of etcd: %w", err)
	case page.More && len(page.Kvs) == 0:
		return nil, errors.New("read the data of etcd: it says that there is more, and has none")
	}
	return page, nil
}
