package program

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software/choose"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software/fetch"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software/packages"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software/unpack"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software/validation"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/onworker"
)

// revision is a component as this machine gets it. Every difference in its content gives another digest.
type revision struct {
	choose.Choice
	name, digest string
}

func newRevision(c choose.Choice) (revision, error) {
	archive := c.Variant.Archive
	data, err := json.Marshal([]any{
		archive.SHA256, archive.Unpack, c.Variant.Packages, c.Variant.Repositories, c.Component.Files, c.Component.Unit,
	})
	if err != nil {
		return revision{}, fmt.Errorf("make the digest of component %s: %w", c.Component.Name, err)
	}
	sum := sha256.Sum256(data)
	return revision{Choice: c, name: c.Component.Name, digest: hex.EncodeToString(sum[:])}, nil
}

// hasArchive says whether something is downloaded for the revision.
func (r revision) hasArchive() bool { return r.Variant.Archive.SHA256 != "" }

// file is a file whose content is in the document.
type file struct {
	content string
	mode    fs.FileMode
}

// files are the document's files, with the unit and the files for repositories of apt.
func (r revision) files() map[string]file {
	files := map[string]file{}
	for path, content := range packages.RepositoryFiles(r.Variant.Repositories) {
		files[path] = file{content, 0o644}
	}
	for _, f := range r.Component.Files {
		mode, err := strconv.ParseUint(f.Mode, 8, 32)
		if err != nil {
			mode = 0o644
		}
		files[f.Path] = file{*f.Content, fs.FileMode(mode).Perm()}
	}
	if r.Component.Unit.Content != "" {
		files[onworker.UnitDir+r.Component.Unit.Name] = file{r.Component.Unit.Content, 0o644}
	}
	return files
}

// stage puts the revision on the disk, beside the others.
func (p *Program) stage(r revision) error {
	return p.store.Stage(r.name, r.digest, r.Component.Unit.Name, func(folder string) (paths []string, err error) {
		err = p.timed(&p.spent.unpack, func() error {
			paths, err = p.fill(folder, r)
			return err
		})
		return paths, err
	})
}

// fill writes the files of a revision below a folder, and returns their paths.
func (p *Program) fill(folder string, r revision) (paths []string, err error) {
	if r.hasArchive() {
		paths, err = unpack.Unpack(p.Disk, fetch.Path(r.Variant.Archive.SHA256), folder, r.Variant.Archive.Unpack, unpack.DefaultLimits)
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			if err := validation.Path(path); err != nil {
				return nil, fmt.Errorf("archive: %w", err)
			}
		}
	}
	files := r.files()
	for _, path := range slices.Sorted(maps.Keys(files)) {
		if slices.Contains(paths, path) {
			return nil, fmt.Errorf("files: %s is there from the archive already; choose another path", path)
		}
		if err := p.stageFile(folder+path, files[path]); err != nil {
			return nil, err
		}
		paths = append(paths, path)
	}
	return paths, nil
}

func (p *Program) stageFile(path string, f file) error {
	if err := p.Disk.MakeFolder(path[:strings.LastIndex(path, "/")]); err != nil {
		return err
	}
	return p.Disk.Write(path, []byte(f.content), f.mode)
}

// plan is what a document means for this machine.
func (p *Program) plan(document software.Document) ([]revision, error) {
	machine, err := p.Facts()
	if err != nil {
		return nil, err
	}
	machine.Version = document.Version
	choices, err := choose.Choose(document, machine)
	if err != nil {
		return nil, err
	}
	p.Say("this machine is %s", machine)
	revisions := make([]revision, 0, len(choices))
	for _, c := range choices {
		r, err := newRevision(c)
		if err != nil {
			return nil, err
		}
		revisions = append(revisions, r)
	}
	return revisions, nil
}

// downloads are the files of revisions that are not staged.
func (p *Program) downloads(revisions []revision) ([]fetch.File, error) {
	var files []fetch.File
	for _, r := range revisions {
		staged, err := p.store.Staged(r.name, r.digest)
		if err != nil {
			return nil, err
		}
		if r.hasArchive() && !staged {
			files = append(files, fetch.File{Component: r.name, Archive: r.Variant.Archive})
		}
	}
	return files, nil
}

// failedBefore reports whether the check of the revision failed before and the revision must not be
// tried again.
func (p *Program) failedBefore(r revision) bool {
	entry := p.store.Find(r.name)
	if entry == nil || p.RetryFailed {
		return false
	}
	_, failed := entry.Failed[r.digest]
	return failed
}

// unitCheck is the check right after the start of a component's unit; none without a unit.
func unitCheck(c bootstrapv1.SoftwareComponent) (bootstrapv1.SoftwareCheck, bool) {
	return c.Check, c.Unit.Name != "" && c.Check.Type != ""
}
