package history

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/diff"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	specs "github.com/kube-on-kube/cluster-api-provider-kok/controlplane/history"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/revision"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/cli/access"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/cli/terminal"
)

// printDiff shows what a revision changed: in spec, and in the renderings that come from it.
func (o *options) printDiff(ctx context.Context, cluster *access.Cluster, reader client.Reader, of *controlplanev1.KOKControlPlane, revisions []appsv1.ControllerRevision) error {
	at := slices.IndexFunc(revisions, func(r appsv1.ControllerRevision) bool { return r.Revision == o.diff })
	switch {
	case at < 0:
		return fmt.Errorf("KOKControlPlane %s has no revision %d; %s", client.ObjectKeyFromObject(of), o.diff, Numbers(revisions)) //nolint:staticcheck // A kind.
	case at == 0:
		return fmt.Errorf("revision %d is the oldest that is kept, and there is none before it to compare it with", o.diff)
	}
	before, after := &revisions[at-1], &revisions[at]
	former, err := SpecOf(before)
	if err != nil {
		return err
	}
	changed, err := SpecOf(after)
	if err != nil {
		return err
	}
	heading := fmt.Sprintf("spec of revision %d after revision %d", after.Revision, before.Revision)
	content, err := specs.Read(after)
	if err != nil {
		return err
	}
	if len(content.By) > 0 {
		heading += ", changed by " + strings.Join(content.By, ", ")
	}
	if err := Print(cluster.Out, heading, former, changed); err != nil {
		return err
	}
	renderings, err := o.stored(ctx, cluster, reader, of)
	if errors.Is(err, errElsewhere) { // The change of spec is shown all the same.
		cluster.Say("%s", err)
		return nil
	}
	if err != nil {
		return err
	}
	return printRenderings(cluster.Out, renderings, after.Name)
}

// errElsewhere is the error where the command line does not lead to what is rendered.
var errElsewhere = errors.New("what is rendered is in the host cluster: name a kubeconfig file of it by --host-kubeconfig")

// stored are the renderings that are stored of a control plane. The error is errElsewhere where the command line does not lead to them.
func (o *options) stored(ctx context.Context, cluster *access.Cluster, reader client.Reader, of *controlplanev1.KOKControlPlane) (revision.Revisions, error) {
	host, err := o.host(cluster, reader, of)
	if err != nil {
		return nil, err
	}
	return revision.List(ctx, host, tenantOf(of))
}

// host reads the host cluster. The error is errElsewhere where that is another one, and the command line does not lead there.
func (o *options) host(cluster *access.Cluster, management client.Reader, of *controlplanev1.KOKControlPlane) (client.Reader, error) {
	switch {
	case !of.Spec.Hosting.OnAnotherCluster():
		return management, nil
	case o.hostKubeconfig == "":
		return nil, errElsewhere
	default:
		return cluster.ClientOf(o.hostKubeconfig)
	}
}

// SpecOf is the spec of a revision.
func SpecOf(r *appsv1.ControllerRevision) (*controlplanev1.KOKControlPlaneSpec, error) {
	content, err := specs.Read(r)
	if err != nil {
		return nil, err
	}
	spec, err := content.SpecOf()
	if err == nil && spec == nil {
		err = fmt.Errorf("ControllerRevision %s has no spec, for it was too large to be kept", client.ObjectKeyFromObject(r)) //nolint:staticcheck // A kind.
	}
	return spec, err
}

// Print shows how two values differ, below a heading.
func Print(out io.Writer, heading string, before, after any) error {
	text := diff.Diff(before, after)
	if text == "" {
		text = "nothing differs\n"
	}
	_, err := io.WriteString(out, terminal.Plain(fmt.Sprintf("%s:\n%s", heading, text)))
	return err
}

// printRenderings shows how the renderings that come from a revision of spec differ from those before them.
func printRenderings(out io.Writer, renderings revision.Revisions, from string) error {
	found := false
	for _, component := range components(renderings) {
		var before revision.Stored
		for i := range renderings[component] {
			r := &renderings[component][i]
			stored, err := revision.Read(r)
			if err != nil {
				return err
			}
			if stored.Spec == from {
				found = true
				if err := printObjects(out, fmt.Sprintf("%s of %s", r.Name, component), before.Objects, stored.Objects); err != nil {
					return err
				}
			}
			before = *stored
		}
	}
	if found {
		return nil
	}
	_, err := fmt.Fprintf(out, "\nno rendering comes from %s\n", from)
	return err
}

// components are those that have renderings, in their order. Services are no component: addresses are recorded of them.
func components(renderings revision.Revisions) []string {
	var all []string
	for component := range renderings {
		if component != specs.Component && component != names.Services {
			all = append(all, component)
		}
	}
	slices.Sort(all)
	return all
}

// printObjects shows the objects that differ.
func printObjects(out io.Writer, heading string, before, after []unstructured.Unstructured) error {
	named := map[string][2]map[string]any{}
	for i, objects := range [2][]unstructured.Unstructured{before, after} {
		for _, object := range objects {
			name := object.GetKind() + " " + object.GetName()
			pair := named[name]
			pair[i] = object.Object
			named[name] = pair
		}
	}
	var changed []string
	for name, pair := range named {
		if diff.Diff(pair[0], pair[1]) != "" {
			changed = append(changed, name)
		}
	}
	slices.Sort(changed)
	if len(changed) == 0 {
		_, err := fmt.Fprintf(out, "\nrendering %s: nothing differs\n", heading)
		return err
	}
	for _, name := range changed {
		what := fmt.Sprintf("\nrendering %s, %s", heading, name)
		switch pair := named[name]; {
		case pair[0] == nil:
			what += ", which is new"
		case pair[1] == nil:
			what += ", which is no more"
		}
		if err := Print(out, what, orNone(named[name][0]), orNone(named[name][1])); err != nil {
			return err
		}
	}
	return nil
}

// orNone is an object, or one without anything where there is none.
func orNone(object map[string]any) map[string]any {
	if object == nil {
		return map[string]any{}
	}
	return object
}
