package etcd

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/store"
)

// bucket is a store whose errors are for a person at a command line: they name flags, and nothing takes them for errors of the API
// server.
type bucket struct{ store.Store }

// Get implements store.Store.
func (b bucket) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	object, err := b.Store.Get(ctx, name)
	if err != nil {
		return nil, flagged(err)
	}
	return content{object}, nil
}

// List implements store.Store.
func (b bucket) List(ctx context.Context) ([]store.Object, error) {
	objects, err := b.Store.List(ctx)
	return objects, flagged(err)
}

// content is an object whose errors are likewise.
type content struct{ io.ReadCloser }

// Read implements io.Reader.
func (c content) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = flagged(err)
	}
	return n, err
}

// flagOf are the flags of the fields that a store may have wrong.
var flagOf = map[string]string{
	"s3.endpoint": flagEndpoint, "s3.bucket": flagBucket, "s3.prefix": flagPrefix, "s3.region": flagRegion,
	"s3.credentialsRef": flagCredentials, "s3.caRef": flagCA,
}

// here is where the store is reached from: its messages are for members of etcd.
var here = strings.NewReplacer("from host nodes", "from this machine", "this host node", "this machine")

// flagged is an error of a store with the flag in the place of the field. What callers tell apart stays.
func flagged(err error) error {
	if err == nil || errors.Is(err, store.ErrNotFound) || errors.Is(err, context.Canceled) {
		return err
	}
	field := store.FieldOf(err)
	text := here.Replace(err.Error())
	if flag, known := flagOf[field]; known {
		text = strings.Replace(text, field+":", "--"+flag+":", 1)
	}
	return errors.New(text)
}
