package hosts

import (
	"context"
	"fmt"
	"strings"
)

// Link is a path that leads elsewhere, because it, or a folder above it, is a symbolic link.
type Link struct{ Path, Target string }

// String names the path and where it leads to.
func (l Link) String() string { return Line(l.Path+" (it is "+l.Target+")", MaxLine) }

// LinksTo are those of the paths that lead elsewhere. A path need not exist: a folder above it may be a link.
func (h *Host) LinksTo(ctx context.Context, paths ...string) ([]Link, error) {
	output, err := h.Run(ctx, append([]string{"realpath", "--canonicalize-missing", "--zero", "--"}, paths...)...)
	if err != nil {
		return nil, err
	}
	targets := list(output)
	if len(targets) != len(paths) {
		return nil, fmt.Errorf("realpath answered for %d paths of %d", len(targets), len(paths))
	}
	var links []Link
	for i, target := range targets {
		if target != paths[i] {
			links = append(links, Link{Path: paths[i], Target: target})
		}
	}
	return links, nil
}

// NamedLinks names links, for people.
func NamedLinks(links []Link) string {
	names := make([]string, len(links))
	for i, link := range links {
		names[i] = link.String()
	}
	return strings.Join(names, ", ")
}
