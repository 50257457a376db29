package artifacts

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
)

// libraryDir is where Debian's loader looks without a cache of its own.
const libraryDir = "/usr/lib/x86_64-linux-gnu"

// loader is what a program names as its interpreter.
const loader = "/lib64/ld-linux-x86-64.so.2"

// closure lists programs of a Debian system with their loader and all libraries that they are linked with: what they
// need in an image that has nothing else.
func closure(root string, programs ...string) ([]File, error) {
	files := []File{{Path: loader, Source: filepath.Join(root, libraryDir, filepath.Base(loader))}}
	for _, program := range programs {
		files = append(files, File{Path: program, Source: filepath.Join(root, program)})
	}
	known := sets.New(filepath.Base(loader))
	for i := 0; i < len(files); i++ {
		needed, err := libraries(files[i].Source)
		if err != nil {
			return nil, fmt.Errorf("find the libraries of %s: %w", files[i].Path, err)
		}
		slices.Sort(needed)
		for _, name := range needed {
			if !known.Has(name) {
				known.Insert(name)
				path := filepath.Join(libraryDir, name)
				files = append(files, File{Path: path, Source: filepath.Join(root, path)})
			}
		}
	}
	return files, nil
}

// packetFilter is the closure of nft and of other programs, with the names of protocols: without them nft prints numbers,
// and kube-proxy takes what it finds in its maps for somebody else's, and deletes it when it starts again.
func packetFilter(root string, programs ...string) ([]File, error) {
	files, err := closure(root, append([]string{filterProgram}, programs...)...)
	if err != nil {
		return nil, err
	}
	return append(files, File{Path: protocolNames, Source: filepath.Join(root, protocolNames)}), nil
}

// libraries are the names of those that a file is linked with.
func libraries(path string) (names []string, err error) {
	file, err := elf.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	names, err = file.ImportedLibraries()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // it is linked with nothing
	}
	return names, err
}
