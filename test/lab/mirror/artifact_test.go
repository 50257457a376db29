package mirror

import (
	"os"
	"testing"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software/choose"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software/disk"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software/facts"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software/fetch"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software/validation"
)

func TestAHostGetsAComponentAsAnArtifact(t *testing.T) {
	m := local(t, small(t))
	described, err := m.Software(t.Context(), "here", "workers", kubernetes)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.AsArtifact(t.Context(), described, Runc); err != nil {
		t.Fatal(err)
	}
	document := software.Document{Name: described.Name, Version: kubernetes, Components: described.Spec.Components}
	for _, of := range described.Spec.Mirrors {
		next := software.Mirror{Prefix: of.Prefix, Exclusive: *of.Exclusive}
		for _, e := range of.Endpoints {
			next.Endpoints = append(next.Endpoints, software.Endpoint{URL: e.URL, CABundle: e.CABundle})
		}
		document.Mirrors = append(document.Mirrors, next)
	}
	if err := validation.Validate(document); err != nil {
		t.Fatal(err)
	}
	for version, asked := range map[string]int{"12": 0, "13": 1} {
		machine := facts.Facts{OS: "debian", OSVersion: version, Architecture: "amd64", Version: kubernetes}
		choices, err := choose.Choose(document, machine)
		if err != nil {
			t.Fatal(err)
		}
		at := &disk.Disk{Root: t.TempDir()}
		before := m.Asked(ArtifactPath(Runc))
		archive := choices[0].Variant.Archive
		if err := fetch.New(fetch.Options{Disk: at, Mirrors: document.Mirrors, Say: t.Logf}).All(t.Context(), []fetch.File{{Component: Runc, Archive: archive}}); err != nil {
			t.Fatal(err)
		}
		if got := m.Asked(ArtifactPath(Runc)) - before; got != asked {
			t.Errorf("Debian %s asked for %d artifacts, want %d", version, got, asked)
		}
		if _, err := os.Stat(at.Place(fetch.Path(archive.SHA256))); err != nil {
			t.Errorf("Debian %s: %v", version, err)
		}
	}
}
