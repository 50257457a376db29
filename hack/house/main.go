// Command house measures how the code is built: make house. It counts lines of the product and of tests by folder, packages that are
// too large to be read as one, and in how many files a component of a control plane is named outside of its own folder.
package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/registry"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/figures"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/program"
)

func main() {
	cmd := &cobra.Command{Use: "house", Short: "Measure how the code is built", Args: cobra.NoArgs}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), os.Stdout) }
	program.Run("house", cmd, "")
}

func run(ctx context.Context, w io.Writer) error {
	files, err := find(ctx)
	if err != nil {
		return err
	}
	if err := show(w, files); err != nil {
		return err
	}
	product, tests := totals(files)
	all := []figures.Figure{
		figures.New("product_lines", product, "lines"), figures.New("test_lines", tests, "lines"),
		figures.New("packages_over_2000_lines", len(largePackages(files)), "packages"),
	}
	for _, component := range registry.Components {
		figure := figures.New("component_places", len(placesOf(component.Name, files)), "files")
		figure.Scenario = component.Name
		all = append(all, figure)
	}
	for _, figure := range all {
		fmt.Fprintln(w, figure, figure.Scenario)
	}
	return figures.Write("house", all)
}

// show writes lines by top folder, then what a person may want to make smaller: large packages, and where components are named.
func show(w io.Writer, files []file) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "folder\tproduct\ttests\t")
	for _, folder := range byFolder(files) {
		fmt.Fprintf(table, "%s\t%d\t%d\t\n", folder.name, folder.product, folder.tests)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	large := largePackages(files)
	for _, name := range slices.Sorted(maps.Keys(large)) {
		fmt.Fprintf(w, "\npackage %s has %d lines: more than a person reads as one\n", name, large[name])
	}
	for _, component := range registry.Components {
		fmt.Fprintf(w, "\n%s is named outside of its folder in\n", component.Name)
		for _, path := range placesOf(component.Name, files) {
			fmt.Fprintf(w, "  %s\n", path)
		}
	}
	fmt.Fprintln(w)
	return nil
}

// folder is a top folder of the repository with its lines.
type folder struct {
	name           string
	product, tests int
}

func byFolder(files []file) []folder {
	folders := map[string]*folder{}
	for _, f := range files {
		name := f.topFolder()
		if folders[name] == nil {
			folders[name] = &folder{name: name}
		}
		if f.test {
			folders[name].tests += f.lines
		} else {
			folders[name].product += f.lines
		}
	}
	var sorted []folder
	for _, one := range folders {
		sorted = append(sorted, *one)
	}
	slices.SortFunc(sorted, func(a, b folder) int { return cmp.Compare(a.name, b.name) })
	return sorted
}

func totals(files []file) (product, tests int) {
	for _, one := range byFolder(files) {
		product, tests = product+one.product, tests+one.tests
	}
	return product, tests
}

// most is how many lines a package of the product may have.
const most = 2000

// largePackages are the lines of packages of the product that have more than most, by their folders.
func largePackages(files []file) map[string]int {
	lines := map[string]int{}
	for _, f := range files {
		if !f.test {
			lines[f.folder()] += f.lines
		}
	}
	maps.DeleteFunc(lines, func(_ string, count int) bool { return count <= most })
	return lines
}
