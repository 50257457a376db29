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

	// valuesPage is how many keys a page has at the most, valuesBytes how many bytes. Etcd takes values of 1.5 MiB.
	valuesPage  = 500
	valuesBytes = 4 << 20
	// valuesTimeout bounds a page.
	valuesTimeout = 30 * time.Second
)

// EachValue calls the callback with each key that API servers store, from one on, and with its value, which the callback must not keep,
// until the callback wants no more. Keys come in their order, from many pages, which are not of one moment: a page has what was acknowledged
// before it was asked for. It returns the key to go on from when it did not come to the end; empty when it did. An empty from is the
// beginning.
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
		if tooLarge(err) && limit > 1 {
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

// tooLarge reports whether an answer has more bytes than a page may have.
func tooLarge(err error) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		if status.Code(err) == codes.ResourceExhausted {
			return true
		}
	}
	return false
}
