//go:build envtest

package controllers

import (
	"context"

	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// intercept has functions take the place of some methods of a client.
func intercept(c client.Client, instead interceptor.Funcs) client.Client {
	return interceptor.NewClient(unwatched{c}, instead)
}

// unwatched is a client that nobody watches with.
type unwatched struct{ client.Client }

func (unwatched) Watch(context.Context, client.ObjectList, ...client.ListOption) (watch.Interface, error) {
	panic("a controller watches with its cache")
}
