package hosts

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"path"
	"strings"
)

// Write replaces a file that only root may read. Its folder must exist. A reader sees the old content
// or the new one.
func (h *Host) Write(ctx context.Context, file string, content []byte) error {
	temporary := Temporary(file)
	steps := [][]string{
		{"install", "-m", "0600", "/dev/null", temporary},
		// Standard input may be a pipe or a socket, and dd reads both.
		{"dd", "of=" + temporary, "status=none", "conv=fsync"},
		{"mv", "-f", temporary, file},
	}
	for i, step := range steps {
		var input []byte
		if i == 1 {
			input = content
		}
		if _, err := h.Feed(ctx, input, step...); err != nil {
			return fmt.Errorf("write %s: %w", file, err)
		}
	}
	logChange(ctx, "write", file)
	return nil
}

// File is a file that only root may read.
type File struct {
	Path    string
	Content []byte
}

// WriteTogether replaces files, and makes the folders that they need. Two commands are enough for any number of files, but a
// reader may find some of them while others are not there yet.
func (h *Host) WriteTogether(ctx context.Context, files ...File) error {
	archive, err := archiveOf(files)
	if err != nil {
		return err
	}
	if _, err := h.Feed(ctx, archive, "tar", "--extract", "--directory=/"); err != nil {
		return fmt.Errorf("write %s: %w", strings.Join(paths(files), ", "), err)
	}
	if err := h.Change(ctx, append([]string{"sync", "--"}, paths(files)...)...); err != nil {
		return err
	}
	logChange(ctx, append([]string{"write"}, paths(files)...)...)
	return nil
}

func paths(files []File) []string {
	var all []string
	for _, file := range files {
		all = append(all, file.Path)
	}
	return all
}

// archiveOf is a tar archive with these files, from the root folder on.
func archiveOf(files []File) ([]byte, error) {
	archive := &bytes.Buffer{}
	writer := tar.NewWriter(archive)
	for _, file := range files {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: strings.TrimPrefix(file.Path, "/"), Mode: 0o600, Size: int64(len(file.Content))}
		if err := writer.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("archive %s: %w", file.Path, err)
		}
		if _, err := writer.Write(file.Content); err != nil {
			return nil, fmt.Errorf("archive %s: %w", file.Path, err)
		}
	}
	if err := writer.Close(); err != nil {
		return nil, fmt.Errorf("end an archive of files: %w", err)
	}
	return archive.Bytes(), nil
}

// Temporary is where Write has a file before it is complete.
func Temporary(file string) string {
	return path.Join(path.Dir(file), "."+path.Base(file)+".new")
}

// Existing returns the paths that exist. find also prints the root folder: without it the output is not find's, but for
// example a refusal of sudo.
func (h *Host) Existing(ctx context.Context, paths ...string) ([]string, error) {
	args := append(append([]string{"find", "/"}, paths...), "-maxdepth", "0", "-print0")
	result, err := h.Try(ctx, args...)
	if err != nil {
		return nil, err
	}
	found := list(result.Stdout)
	if len(found) == 0 || found[0] != "/" {
		return nil, Failure(args[:1], result)
	}
	return found[1:], nil
}

// Find runs find with these arguments, which make it print with -print0, and returns what it prints.
func (h *Host) Find(ctx context.Context, args ...string) ([]string, error) {
	output, err := h.Run(ctx, append([]string{"find"}, args...)...)
	return list(output), err
}

// Entries are the paths in a folder; none when it does not exist.
func (h *Host) Entries(ctx context.Context, folder string) ([]string, error) {
	there, err := h.Existing(ctx, folder)
	if err != nil || len(there) == 0 {
		return nil, err
	}
	return h.Find(ctx, folder, "-mindepth", "1", "-maxdepth", "1", "-print0")
}

// FileBelow returns one file below a folder; none when there are only folders.
func (h *Host) FileBelow(ctx context.Context, folder string) ([]string, error) {
	return h.Find(ctx, folder, "-mindepth", "1", "-not", "-type", "d", "-print0", "-quit")
}

// Remove removes files and folders on their own file system. A volume that is mounted in them keeps its content.
func (h *Host) Remove(ctx context.Context, paths ...string) error {
	return h.Change(ctx, append([]string{"rm", "-rf", "--one-file-system", "--"}, paths...)...)
}

// list splits an output into records. Each ends with a zero byte.
func list(output []byte) []string {
	var records []string
	for record := range bytes.SplitSeq(output, []byte{0}) {
		if len(record) > 0 {
			records = append(records, string(record))
		}
	}
	return records
}
