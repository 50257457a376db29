package bundle

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"path"
	"time"
)

// archive is a .tar.gz with everything in one folder. It keeps its first error.
type archive struct {
	folder     string
	made       time.Time
	compressed *gzip.Writer
	tar        *tar.Writer
	err        error
}

func newArchive(out io.Writer, folder string, made time.Time) *archive {
	compressed := gzip.NewWriter(out)
	return &archive{folder: folder, made: made, compressed: compressed, tar: tar.NewWriter(compressed)}
}

// write adds a file; an empty one is left out.
func (a *archive) write(name string, content []byte) {
	if a.err != nil || len(content) == 0 {
		return
	}
	header := &tar.Header{Typeflag: tar.TypeReg, Name: path.Join(a.folder, name), Mode: 0o600, Size: int64(len(content)), ModTime: a.made}
	if a.err = a.tar.WriteHeader(header); a.err == nil {
		_, a.err = a.tar.Write(content)
	}
}

func (a *archive) close() error {
	if a.err != nil {
		return a.err
	}
	return errors.Join(a.tar.Close(), a.compressed.Close())
}
