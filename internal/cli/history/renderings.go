package history

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/registry"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/revision"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/cli/access"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/cli/output"
)

// rendering is a stored rendering as data.
type rendering struct {
	Component string `json:"component"`
	Revision  int64  `json:"revision"`
	Name      string `json:"name"`
	Version   string `json:"version,omitempty"`
	Provider  string `json:"provider,omitempty"`
	Spec      string `json:"spec,omitempty"`
	// Again is the number of the revision whose objects were taken again; 0 for none.
	Again int64       `json:"again,omitempty"`
	At    metav1.Time `json:"at"`
	// Is says what the rendering is to the newest one.
	Is string `json:"is"`
}

// What a rendering is to the newest one of its component.
const (
	isPresent   = "present"
	asPresent   = "as present"
	takesAgain  = "can be taken again"
	otherInputs = "of other inputs"
)

// printStored shows the stored renderings of a control plane.
func (o *options) printStored(ctx context.Context, cluster *access.Cluster, reader client.Reader, of *controlplanev1.KOKControlPlane) error {
	all, err := o.stored(ctx, cluster, reader, of)
	if err != nil {
		return err
	}
	found, err := renderingsOf(all)
	if err != nil {
		return err
	}
	if o.format.IsData() {
		return o.format.Write(cluster.Out, found)
	}
	if len(found) == 0 {
		cluster.Say("KOKControlPlane %s has no renderings yet: the manager renders its components when it reconciles it", client.ObjectKeyFromObject(of))
		return nil
	}
	return printStoredRows(cluster.Out, found, time.Now())
}

// renderingsOf are stored renderings as data, of each component the newest first.
func renderingsOf(all revision.Revisions) ([]rendering, error) {
	found := []rendering{}
	for _, component := range components(all) {
		revisions := all[component]
		newest, err := revision.Read(&revisions[len(revisions)-1])
		if err != nil {
			return nil, err
		}
		for i := range slices.Backward(revisions) {
			stored, err := revision.Read(&revisions[i])
			if err != nil {
				return nil, err
			}
			row := renderingOf(component, &revisions[i], stored)
			if row.Is = compared(component, newest, stored); i == len(revisions)-1 {
				row.Is = isPresent
			}
			found = append(found, row)
		}
	}
	return found, nil
}

func renderingOf(component string, r *appsv1.ControllerRevision, stored *revision.Stored) rendering {
	return rendering{
		Component: component, Revision: r.Revision, Name: r.Name, Version: stored.Version, Provider: stored.Provider, Spec: stored.Spec,
		Again: stored.Again, At: r.CreationTimestamp,
	}
}

// compared says what an older rendering is to the newest one; empty for one that its component cannot take again.
func compared(component string, newest, stored *revision.Stored) string {
	switch {
	case !registry.Components.TakesAgain(component):
		return ""
	case stored.Inputs != newest.Inputs:
		return otherInputs
	case reflect.DeepEqual(stored.Objects, newest.Objects):
		return asPresent
	}
	return takesAgain
}

func printStoredRows(out io.Writer, all []rendering, now time.Time) error {
	var table [][]string
	for _, r := range all {
		is := cmp.Or(r.Is, "-")
		if r.Again > 0 {
			is += fmt.Sprintf(", taken from %d", r.Again)
		}
		table = append(table, []string{
			r.Component, strconv.FormatInt(r.Revision, 10), r.Version, r.Provider, r.Spec, duration.HumanDuration(now.Sub(r.At.Time)), is,
		})
	}
	return output.Table(out, []string{"COMPONENT", "REVISION", "VERSION", "PROVIDER", "SPEC", "AGE", "IS"}, table)
}
