package components

import (
	"maps"
	"slices"
	"strings"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
)

// Args builds a command line: those that an asset lists, then those of the adapter, then the user's,
// each replacing an earlier one of the same name; sorted, so that order never makes a difference.
func Args(asset []string, adapted map[string]string, extra []controlplanev1.Arg) []string {
	byName := map[string]string{}
	for _, arg := range asset {
		name, value, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		byName[name] = value
	}
	maps.Copy(byName, adapted)
	for _, arg := range extra {
		byName[arg.Name] = *arg.Value
	}
	args := make([]string, 0, len(byName))
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		args = append(args, "--"+name+"="+byName[name])
	}
	return args
}
