package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// writeBalancer writes the load balancer as a file, as packages of Linux distributions, and in archives for machines of
// administrators.
func (r release) writeBalancer(ctx context.Context, programs []binary) error {
	for _, p := range programs {
		if p.name != balancer {
			continue
		}
		content, err := os.ReadFile(p.file)
		if err != nil {
			return err
		}
		files := []archived{{name: balancer, mode: 0o755, content: content}}
		for _, unit := range []string{balancerUnit, adminUnit} {
			content, err := os.ReadFile(filepath.Join(r.root, unit))
			if err != nil {
				return err
			}
			files = append(files, archived{name: filepath.Base(unit), mode: 0o644, content: content})
		}
		if err := r.writeArchive(p, files...); err != nil {
			return err
		}
		if p.system != "linux" {
			continue
		}
		if err := os.WriteFile(filepath.Join(r.out, p.title()), content, 0o755); err != nil {
			return err
		}
		cmd := exec.CommandContext(ctx, r.packager, "--version="+r.version, "--architecture="+p.architecture, "--program="+p.file,
			"--unit="+filepath.Join(r.root, balancerUnit), "--user-unit="+filepath.Join(r.root, adminUnit), "--time="+strconv.FormatInt(r.made.Unix(), 10), "--out="+r.out)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("make packages of %s: %w", p.title(), err)
		}
	}
	return nil
}

// writeTool writes the command line program in archives. Its other names are hard links: the archive holds its
// content once, and the unpacked files can be moved one by one.
func (r release) writeTool(programs []binary) error {
	for _, p := range programs {
		if p.name != tool {
			continue
		}
		content, err := os.ReadFile(p.file)
		if err != nil {
			return err
		}
		files := []archived{{name: tool, mode: 0o755, content: content}}
		for _, name := range toolNames {
			files = append(files, archived{name: name, mode: 0o755, linkTo: tool})
		}
		if err := r.writeArchive(p, files...); err != nil {
			return err
		}
	}
	return nil
}

// archived is a file in an archive, or a hard link to one before it.
type archived struct {
	name    string
	mode    int64
	content []byte
	linkTo  string
}

// writeArchive writes the archive of a program with the licence beside its files.
func (r release) writeArchive(p binary, files ...archived) error {
	file := filepath.Join(r.out, fmt.Sprintf("%s-%s-%s-%s.tar.gz", p.name, r.version, p.system, p.architecture))
	licence, err := os.ReadFile(filepath.Join(r.root, "LICENSE"))
	if err != nil {
		return err
	}
	var b bytes.Buffer
	compressed := gzip.NewWriter(&b)
	w := tar.NewWriter(compressed)
	for _, f := range append(files, archived{name: "LICENSE", mode: 0o644, content: licence}) {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: f.mode, Size: int64(len(f.content)), ModTime: r.made}
		if f.linkTo != "" {
			header.Typeflag, header.Linkname = tar.TypeLink, f.linkTo
		}
		if err := w.WriteHeader(header); err != nil {
			return fmt.Errorf("write %s: %w", file, err)
		}
		if _, err := w.Write(f.content); err != nil {
			return fmt.Errorf("write %s: %w", file, err)
		}
	}
	if err := errors.Join(w.Close(), compressed.Close()); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return os.WriteFile(file, b.Bytes(), 0o644)
}
