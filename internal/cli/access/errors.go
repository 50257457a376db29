package access

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/clientcmd"
)

// explained is an error that says what to do.
type explained struct {
	text string
	err  error
}

func (e *explained) Error() string { return e.text }
func (e *explained) Unwrap() error { return e.err }

// Explain adds to an error of a client what to do. The client's own text stays. Nil stays nil.
func (c *Cluster) Explain(err error) error {
	var done *explained
	if err == nil || errors.As(err, &done) || errors.Is(err, context.Canceled) {
		return err
	}
	way := c.wayOut(err)
	if way == "" {
		return err
	}
	return &explained{text: way, err: err}
}

// nothingNamed reports whether no kubeconfig names a cluster. Clients then try a port of this machine.
func (c *Cluster) nothingNamed() bool {
	config, err := c.flags.ToRawKubeConfigLoader().RawConfig()
	return err == nil && len(config.Clusters) == 0 && *c.flags.APIServer == ""
}

func (c *Cluster) wayOut(err error) string {
	var network net.Error
	var wrongURL *url.Error
	var file *fs.PathError // Its cause is a system error, which errors.As also takes for one of the network.
	silent := !errors.As(err, &file) && (errors.As(err, &network) || errors.As(err, &wrongURL) || errors.Is(err, context.DeadlineExceeded))
	switch {
	case clientcmd.IsContextNotFound(err):
		return fmt.Sprintf("%v; kubectl config get-contexts lists those that there are", err)
	case clientcmd.IsEmptyConfig(err), silent && c.nothingNamed():
		return "no cluster is chosen; name a kubeconfig file by --kubeconfig or in KUBECONFIG"
	case meta.IsNoMatchError(err):
		return fmt.Sprintf("%s has none of the providers' kinds (%v); choose the management cluster by --kubeconfig or --context, or install the providers there: clusterctl init", c.Server(), err)
	case apierrors.IsUnauthorized(err):
		return fmt.Sprintf("%s does not know you (%v); log in again, or choose another --context", c.Server(), err)
	case apierrors.IsForbidden(err):
		return fmt.Sprintf("%s does not let you: %v; ask its administrator for a role that allows it", c.Server(), err)
	case apierrors.IsInvalid(err):
		return fmt.Sprintf("%s refuses a value: %v; correct it and run the command again", c.Server(), err)
	case silent:
		return fmt.Sprintf("%s does not answer: %v; see to the network, or choose another --kubeconfig or --context", c.Server(), err)
	default:
		return ""
	}
}
