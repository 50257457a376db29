package unpack

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software/disk"
)

// unpacker unpacks files of one archive.
type unpacker struct {
	disk   *disk.Disk
	folder string
	items  []bootstrapv1.SoftwareUnpack
	limits Limits

	paths []string
	// found is true for each item that the archive has.
	found []bool
	// names are some files of the archive, links the targets of its links; both are for errors.
	names []string
	links map[string]string
	// staged says where files of the archive were written, for hard links to them.
	staged map[string][]string
	// linked are the places of links. Nothing may be written through them.
	linked map[string]bool
}

var errTooLarge = errors.New("the archive is larger, unpacked, than any program")

// bounded fails when more than the limit is read.
type bounded struct {
	source io.Reader
	left   int64
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.source.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, errTooLarge
	}
	return n, err
}

// maxWindow bounds the memory that a zstd archive can ask for.
const maxWindow = 128 << 20

// decompressed finds out how an archive is compressed by its first bytes.
func decompressed(source io.Reader) (io.Reader, func(), error) {
	buffered := bufio.NewReaderSize(source, 1<<20)
	head, err := buffered.Peek(4)
	if err != nil {
		return nil, nil, fmt.Errorf("read the archive: %w", err)
	}
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		r, err := gzip.NewReader(buffered)
		if err != nil {
			return nil, nil, fmt.Errorf("read the archive: %w", err)
		}
		return r, func() { _ = r.Close() }, nil
	case bytes.Equal(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		r, err := zstd.NewReader(buffered, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, nil, fmt.Errorf("read the archive: %w", err)
		}
		return r, r.Close, nil
	}
	return buffered, func() {}, nil
}

func (u *unpacker) read(source io.Reader) error {
	plain, end, err := decompressed(source)
	if err != nil {
		return err
	}
	defer end()
	archive := tar.NewReader(&bounded{source: plain, left: u.limits.Bytes})
	u.links, u.linked = map[string]string{}, map[string]bool{}
	for entries := 0; ; entries++ {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the archive: it must be a tar archive, plain or compressed by gzip or zstd: %w", err)
		}
		if entries >= u.limits.Entries {
			return errTooLarge
		}
		if err := u.entry(header, archive); err != nil {
			return err
		}
	}
}

// clean is a path of an archive in its shortest form, without a leading slash.
func clean(name string) (string, error) {
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return "", fmt.Errorf("the archive has a path with .., %q, and is not unpacked", name)
		}
	}
	return strings.TrimPrefix(path.Clean("/"+name), "/"), nil
}

func (u *unpacker) entry(header *tar.Header, content io.Reader) error {
	name, err := clean(header.Name)
	if err != nil {
		return err
	}
	if header.Typeflag == tar.TypeDir {
		for i, item := range u.items {
			if from, folder := strings.CutSuffix(item.From, "/"); folder && name == path.Clean(from) {
				u.found[i] = true
			}
		}
		return nil
	}
	if header.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	if len(u.names) <= maxShown {
		u.names = append(u.names, name)
	}
	if header.Typeflag == tar.TypeSymlink {
		u.links[name] = header.Linkname
	}
	for i, item := range u.items {
		to, ok := place(item, name)
		if !ok {
			continue
		}
		if err := u.write(item, name, to, header, content); err != nil {
			return fmt.Errorf("unpack %s: %w", name, err)
		}
		u.found[i] = u.found[i] || header.Typeflag != tar.TypeSymlink || strings.HasSuffix(item.From, "/")
	}
	return nil
}

// place is where an entry goes, if the item covers it.
func place(item bootstrapv1.SoftwareUnpack, name string) (string, bool) {
	from := strings.TrimPrefix(path.Clean("/"+item.From), "/")
	if !strings.HasSuffix(item.From, "/") {
		if name != from {
			return "", false
		}
		if strings.HasSuffix(item.To, "/") {
			return item.To + path.Base(name), true
		}
		return item.To, true
	}
	if from == "" {
		return item.To + name, true
	}
	relative, ok := strings.CutPrefix(name, from+"/")
	return item.To + relative, ok
}

func (u *unpacker) write(item bootstrapv1.SoftwareUnpack, name, to string, header *tar.Header, content io.Reader) error {
	target := u.folder + to
	for above := path.Dir(target); len(above) > len(u.folder); above = path.Dir(above) {
		if u.linked[above] {
			return errors.New("the archive has a link in the place of one of its folders")
		}
	}
	var err error
	switch header.Typeflag {
	case tar.TypeReg:
		// The archive is read only once: a second item with the same file gets a copy of the first one's.
		if first := u.staged[name]; len(first) > 0 {
			err = copyFile(u.disk, first[0], target, mode(item, header.FileInfo().Mode()))
		} else {
			err = write(u.disk, target, mode(item, header.FileInfo().Mode()), content)
		}
	case tar.TypeLink:
		err = u.hardLink(item, target, header)
	case tar.TypeSymlink:
		if !strings.HasSuffix(item.From, "/") {
			// The link's target is not in the archive; missing names it.
			return nil
		}
		err = u.symlink(item, name, target, header.Linkname)
	default:
		err = fmt.Errorf("it is neither a file nor a link, and is not unpacked")
	}
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("the archive has %s twice", to)
	}
	if err != nil {
		return err
	}
	u.staged[name] = append(u.staged[name], target)
	u.paths = append(u.paths, to)
	return nil
}

// hardLink copies a file that was unpacked before.
func (u *unpacker) hardLink(item bootstrapv1.SoftwareUnpack, target string, header *tar.Header) error {
	linked, err := clean(header.Linkname)
	if err != nil {
		return err
	}
	first := u.staged[linked]
	if len(first) == 0 {
		return fmt.Errorf("it is a link to %s, which is not unpacked before it", linked)
	}
	info, err := os.Lstat(u.disk.Place(first[0]))
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("it is a hard link to %s, which is not a file", linked)
	}
	return copyFile(u.disk, first[0], target, mode(item, info.Mode()))
}

// symlink makes a link that stays in the folder that is unpacked.
func (u *unpacker) symlink(item bootstrapv1.SoftwareUnpack, name, target, linkname string) error {
	root := strings.TrimPrefix(path.Clean("/"+item.From), "/")
	leads := path.Join(path.Dir(name), linkname)
	if path.IsAbs(linkname) || leads == ".." || strings.HasPrefix(leads, "../") || root != "" && !strings.HasPrefix(leads, root+"/") {
		return fmt.Errorf("it is a link to %s, which is not in %s", linkname, item.From)
	}
	if returns(linkname) {
		return fmt.Errorf("it is a link to %s, which has .. after a name", linkname)
	}
	if err := os.MkdirAll(filepath.Dir(u.disk.Place(target)), 0o755); err != nil {
		return err
	}
	u.linked[target] = true
	return u.disk.Link(linkname, target)
}

// returns reports whether a path has ".." after a name. If that name is a link, the path leads elsewhere than its text says.
func returns(linkname string) bool {
	named := false
	for part := range strings.SplitSeq(linkname, "/") {
		if part == ".." && named {
			return true
		}
		named = named || part != ".." && part != "." && part != ""
	}
	return false
}
