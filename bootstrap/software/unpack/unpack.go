// Package unpack unpacks files of a download. It trusts no archive: the digest shows that it is the archive that a person
// named, not that it does no harm.
package unpack

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software/disk"
)

// Limits of an archive, unpacked.
type Limits struct {
	Bytes   int64
	Entries int
}

// DefaultLimits are more than any program needs.
var DefaultLimits = Limits{Bytes: 4 << 30, Entries: 100_000}

const defaultMode = 0o755

// Unpack writes the files of a download that items name below a folder, and returns the paths that they are for.
func Unpack(d *disk.Disk, source, folder string, items []bootstrapv1.SoftwareUnpack, limits Limits) ([]string, error) {
	var paths []string
	var inside []bootstrapv1.SoftwareUnpack
	for _, item := range items {
		if item.From != "" {
			inside = append(inside, item)
			continue
		}
		if err := copyFile(d, source, folder+item.To, mode(item, defaultMode)); err != nil {
			return nil, err
		}
		paths = append(paths, item.To)
	}
	if len(inside) == 0 {
		return paths, nil
	}
	file, err := os.Open(d.Place(source))
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	u := &unpacker{disk: d, folder: folder, items: inside, limits: limits, found: make([]bool, len(inside)), staged: map[string][]string{}}
	if err := u.read(file); err != nil {
		return nil, err
	}
	return append(paths, u.paths...), u.missing()
}

// mode is the document's, or otherwise when it has none.
func mode(item bootstrapv1.SoftwareUnpack, otherwise fs.FileMode) fs.FileMode {
	if n, err := strconv.ParseUint(item.Mode, 8, 32); err == nil {
		return fs.FileMode(n).Perm()
	}
	return otherwise.Perm()
}

func copyFile(d *disk.Disk, source, target string, mode fs.FileMode) error {
	from, err := os.Open(d.Place(source))
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }()
	return write(d, target, mode, from)
}

func write(d *disk.Disk, target string, mode fs.FileMode, content io.Reader) error {
	file, err := d.Create(target)
	if err != nil {
		return err
	}
	_, err = io.Copy(d.Roomy(target, file), content)
	return errors.Join(err, file.Chmod(mode), file.Close())
}

// maxShown is how many names of an archive an error has.
const maxShown = 12

// missing is the error about an item that the archive lacks. It names what the archive has.
func (u *unpacker) missing() error {
	i := slices.Index(u.found, false)
	if i < 0 {
		return nil
	}
	shown := u.names
	more := ""
	if len(shown) > maxShown {
		shown, more = shown[:maxShown], " and more"
	}
	if hint := u.links[path.Clean(u.items[i].From)]; hint != "" {
		return fmt.Errorf("archive.unpack: %s is a link to %s in the archive; name that", u.items[i].From, hint)
	}
	return fmt.Errorf("archive.unpack: the archive has no %s. It has %s%s", u.items[i].From, strings.Join(shown, ", "), more)
}
