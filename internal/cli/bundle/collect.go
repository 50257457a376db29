package bundle

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/cli/access"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/cli/exit"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/cli/status"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/version"
)

// collector reads what a bundle is made of and writes it.
type collector struct {
	options

	cluster   *access.Cluster
	client    client.Client
	dynamic   dynamic.Interface
	discovery discovery.DiscoveryInterface
	pods      kubernetes.Interface

	archive  *archive
	redactor *redactor
	managers []appsv1.Deployment
	// seen are the objects that were written, so that their Events follow. conditions is the page with all their conditions.
	seen       map[reference]bool
	conditions bytes.Buffer
	// unread says what could not be read.
	unread []string
}

func newCollector(cluster *access.Cluster, o options) (*collector, error) {
	config, err := cluster.Config()
	if err != nil {
		return nil, err
	}
	c := &collector{options: o, cluster: cluster, redactor: newRedactor(), seen: map[reference]bool{}}
	if c.client, err = cluster.Client(); err != nil {
		return nil, err
	}
	if c.dynamic, err = dynamic.NewForConfig(config); err != nil {
		return nil, err
	}
	if c.discovery, err = discovery.NewDiscoveryClientForConfig(config); err != nil {
		return nil, err
	}
	c.pods, err = kubernetes.NewForConfig(config)
	return c, err
}

// note keeps what could not be read; nil is nothing.
func (c *collector) note(what string, err error) {
	if err != nil {
		c.unread = append(c.unread, fmt.Sprintf("%s: %v", what, err))
	}
}

// collect writes everything. It reads Secrets first, so that their values are known and taken out of all that follows.
func (c *collector) collect(ctx context.Context, s *scope) {
	for _, step := range []struct {
		name string
		do   func(context.Context, *scope)
	}{
		{"Secrets", c.collectSecrets}, {"versions", c.collectVersions}, {"status", c.collectStatus}, {"objects", c.collectObjects},
		{"Events", c.collectEvents}, {"logs", c.collectLogs},
	} {
		if ctx.Err() != nil {
			return
		}
		if c.redactor.unknown && (step.name == "Events" || step.name == "logs") {
			c.note(step.name, errors.New("they are left out, because Secrets have more lines than are looked for in texts: collect them by kubectl, and read them before you give them away"))
			continue
		}
		_, _ = fmt.Fprintf(c.cluster.ErrOut, "Collecting %s\n", step.name)
		step.do(ctx, s)
	}
	c.text("conditions.txt", c.conditions.String())
	unread := "Everything was read."
	if len(c.unread) > 0 {
		unread = strings.Join(c.unread, "\n")
	}
	c.text("errors.txt", unread+"\n")
}

// maxTold bounds how much of what could not be read is told at the end. errors.txt has all.
const maxTold = 10

// lacks is bad news where something could not be read: who collects by a script does not look into errors.txt.
func (c *collector) lacks() error {
	if len(c.unread) == 0 {
		return nil
	}
	for _, each := range c.unread[:min(maxTold, len(c.unread))] {
		c.cluster.Say("Not in it: %s", c.redactor.text(each))
	}
	return &exit.BadNews{Message: fmt.Sprintf("%s is written, and %d things could not be read; errors.txt in it lists them", c.output, len(c.unread))}
}

// text writes a text without its secrets.
func (c *collector) text(name, text string) { c.archive.write(name, []byte(c.redactor.text(text))) }

func (c *collector) collectVersions(_ context.Context, _ *scope) {
	var b strings.Builder
	_, _ = fmt.Fprintf(&b, "kok: %s\n", version.Get())
	server, err := c.discovery.ServerVersion()
	c.note("version of the API server", err)
	if err == nil {
		_, _ = fmt.Fprintf(&b, "API server: %s (%s)\n", server.GitVersion, server.Platform)
	}
	for _, manager := range c.managers {
		for _, container := range manager.Spec.Template.Spec.Containers {
			_, _ = fmt.Fprintf(&b, "%s/%s %s: %s\n", manager.Namespace, manager.Name, container.Name, container.Image)
		}
	}
	c.text("versions.txt", b.String())
}

func (c *collector) collectStatus(ctx context.Context, s *scope) {
	for _, key := range s.sortedClusters() {
		report, err := status.Of(ctx, c.client, key)
		c.note("status of Cluster "+key.String(), err)
		if err != nil {
			continue
		}
		var b bytes.Buffer
		c.note("status of Cluster "+key.String(), report.Print(&b, time.Now()))
		c.text("status/"+key.Namespace+"/"+key.Name+".txt", b.String())
		if report.ControlPlane != nil && report.ControlPlane.HostCluster != "" {
			c.note("control plane of Cluster "+key.String(), fmt.Errorf("it runs in another host cluster, of Secret %s; run the command with that cluster's kubeconfig, too", report.ControlPlane.HostCluster))
		}
	}
}
