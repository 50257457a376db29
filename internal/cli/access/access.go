// Package access reaches the cluster that the command line of kok names, and says of every failure what to do.
package access

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
)

// Cluster is the cluster that the command line names, and where a command reads and writes.
type Cluster struct {
	genericiooptions.IOStreams
	// Program is what people call the program, for messages: kok, or kubectl kok.
	Program string

	flags *genericclioptions.ConfigFlags
}

// New returns the access of a program with these streams.
func New(program string, streams genericiooptions.IOStreams) *Cluster {
	flags := genericclioptions.NewConfigFlags(true)
	// --user is the user of a host. To choose another user of the cluster, set --context.
	flags.AuthInfoName = nil
	flags.CacheDir = nil // No cache: a command reads everything once.
	return &Cluster{IOStreams: streams, Program: program, flags: flags}
}

// rare are flags that nobody with a kubeconfig needs. They work, but help does not show them.
var rare = []string{
	"as-uid", "as-user-extra", "certificate-authority", "client-certificate", "client-key", "cluster", "disable-compression",
	"insecure-skip-tls-verify", "server", "tls-server-name", "token",
}

// AddFlags adds the flags that kubectl has, too, to a command and those below it.
func (c *Cluster) AddFlags(command *cobra.Command) {
	c.flags.AddFlags(command.PersistentFlags())
	for _, name := range rare {
		utilruntime.Must(command.PersistentFlags().MarkHidden(name))
	}
	// These calls fail only for flags that do not exist.
	utilruntime.Must(command.RegisterFlagCompletionFunc("namespace", c.Complete(&corev1.NamespaceList{}, false)))
	utilruntime.Must(command.RegisterFlagCompletionFunc("context", c.completeContext))
}

// scheme has the kinds that kok reads and writes.
func scheme() *runtime.Scheme {
	all := runtime.NewScheme()
	builder := runtime.NewSchemeBuilder(clientgoscheme.AddToScheme, clusterv1.AddToScheme, bootstrapv1.AddToScheme, controlplanev1.AddToScheme, infrav1.AddToScheme)
	utilruntime.Must(builder.AddToScheme(all)) // They are part of the program.
	return all
}

// requestTimeout is how long an API server has for one answer, unless --request-timeout says otherwise.
const requestTimeout = 30 * time.Second

// Config is the client configuration for the API server.
func (c *Cluster) Config() (*rest.Config, error) {
	config, err := c.flags.ToRESTConfig()
	if err != nil {
		return nil, c.Explain(err)
	}
	if config.Timeout == 0 {
		config.Timeout = requestTimeout
	}
	config.QPS, config.Burst = 50, 100
	config.WarningHandler = rest.NoWarnings{}
	return config, nil
}

// Client is a client for the kinds of Kubernetes, of Cluster API and of the three providers. It has no cache.
func (c *Cluster) Client() (client.Client, error) {
	config, err := c.Config()
	if err != nil {
		return nil, err
	}
	made, err := client.New(config, client.Options{Scheme: scheme()})
	return made, c.Explain(err)
}

// ClientOf is a client for the cluster of a kubeconfig file, by its current context.
func (c *Cluster) ClientOf(file string) (client.Client, error) {
	config, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig %s: %w", file, err)
	}
	config.Timeout, config.WarningHandler = requestTimeout, rest.NoWarnings{}
	made, err := client.New(config, client.Options{Scheme: scheme()})
	if err != nil {
		return nil, fmt.Errorf("reach the cluster of %s: %w", file, err)
	}
	return made, nil
}

// Namespace is that of the command line, or of the context; given says whether the command line has one.
func (c *Cluster) Namespace() (namespace string, given bool, err error) {
	namespace, given, err = c.flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return "", false, c.Explain(err)
	}
	return namespace, given && *c.flags.Namespace != "", nil
}

// Server is the URL of the API server, for messages.
func (c *Cluster) Server() string {
	config, err := c.flags.ToRESTConfig()
	if err != nil {
		return "the API server"
	}
	return "the API server " + config.Host
}

// completionTimeout is how long a person who presses the tab key waits at most.
const completionTimeout = 3 * time.Second

// Complete completes names of objects: those of the namespace, or of the cluster if the kind has none. A command that takes
// several does not offer one twice.
func (c *Cluster) Complete(list client.ObjectList, namespaced bool) cobra.CompletionFunc {
	return func(command *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(command.Context(), completionTimeout)
		defer cancel()
		found := list.DeepCopyObject().(client.ObjectList)
		names, err := c.names(ctx, found, namespaced)
		if err != nil {
			cobra.CompDebugln(fmt.Sprintf("complete: %v", err), false)
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return slices.DeleteFunc(names, func(name string) bool { return slices.Contains(args, name) }), cobra.ShellCompDirectiveNoFileComp
	}
}

// CompleteOne is Complete for a command that takes one name.
func (c *Cluster) CompleteOne(list client.ObjectList, namespaced bool) cobra.CompletionFunc {
	complete := c.Complete(list, namespaced)
	return func(command *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return complete(command, args, toComplete)
	}
}

func (c *Cluster) completeContext(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	config, err := c.flags.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for name := range config.Contexts {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, cobra.ShellCompDirectiveNoFileComp
}
