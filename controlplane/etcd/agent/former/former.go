// Package former puts aside what a member of etcd must not start with: data of former clusters, data that cannot be read, and
// what an etcd left that never had data. One rename moves it to a folder beside the data directory. Nothing deletes it.
package former

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Names of what is put aside, beside IDs of clusters.
const (
	// Unreadable is for data of which it is not known which cluster they are of.
	Unreadable = "unreadable"
	// WithoutData is for what an etcd left that never had data.
	WithoutData = "without-data"
)

// member is the folder in a data directory that has all of etcd.
const member = "member"

// Aside is a data directory that was put aside. The one with the highest number came last.
type Aside struct {
	// Path is that of the directory.
	Path string
	// Name is the ID of its cluster, as 16 hexadecimal digits, or one of the names above.
	Name   string
	Number int
}

// HasMember reports whether there is something in a data directory that can be put aside.
func HasMember(dataDir string) (bool, error) {
	_, err := os.Lstat(filepath.Join(dataDir, member))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// PutAside moves what etcd has in a data directory to a folder of its own, which was not there before. Etcd takes the directory for
// an empty one then. If the program is killed before the rename, the next run does all of it again.
func PutAside(dataDir, name string) (Aside, error) {
	a, err := putAside(dataDir, name)
	if err != nil {
		return Aside{}, fmt.Errorf("put the data in %s aside: %w", dataDir, err)
	}
	return a, nil
}

func putAside(dataDir, name string) (Aside, error) {
	dataDir, err := filepath.Abs(dataDir)
	if err != nil {
		return Aside{}, err
	}
	folder := folderOf(dataDir)
	all, err := list(folder)
	if err != nil {
		return Aside{}, err
	}
	a := Aside{Name: name, Number: 1}
	for _, other := range all {
		a.Number = max(a.Number, other.Number+1)
	}
	a.Path = filepath.Join(folder, a.Name+"-"+strconv.Itoa(a.Number))
	if err := os.MkdirAll(a.Path, 0o700); err != nil {
		return Aside{}, err
	}
	if err := syncFolders(folder, filepath.Dir(folder)); err != nil {
		return Aside{}, err
	}
	// It fails where the target has anything.
	if err := os.Rename(filepath.Join(dataDir, member), filepath.Join(a.Path, member)); err != nil {
		return Aside{}, err
	}
	return a, syncFolders(a.Path, dataDir)
}

// Newest is what was put aside last, but for what has no data; false where there is none.
func Newest(dataDir string) (newest Aside, found bool, err error) {
	dataDir, err = filepath.Abs(dataDir)
	if err != nil {
		return Aside{}, false, err
	}
	all, err := list(folderOf(dataDir))
	if err != nil {
		return Aside{}, false, fmt.Errorf("look for data that were put aside: %w", err)
	}
	for _, a := range all {
		if a.Name != WithoutData && a.Number > newest.Number {
			newest, found = a, true
		}
	}
	return newest, found, nil
}

// folderOf is beside the data directory: a rename needs the same file system.
func folderOf(dataDir string) string { return filepath.Join(filepath.Dir(dataDir), "former") }

// list are all that were put aside. A folder without data is one that was made before its maker was killed.
func list(folder string) ([]Aside, error) {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []Aside
	for _, entry := range entries {
		a := Aside{Path: filepath.Join(folder, entry.Name())}
		at := strings.LastIndex(entry.Name(), "-")
		if at < 0 {
			continue
		}
		if a.Number, err = strconv.Atoi(entry.Name()[at+1:]); err != nil {
			continue
		}
		a.Name = entry.Name()[:at]
		there, err := HasMember(a.Path)
		if err != nil {
			return nil, err
		}
		if there {
			all = append(all, a)
		}
	}
	return all, nil
}

// syncFolders writes to the disk which names folders have.
func syncFolders(folders ...string) error {
	for _, folder := range folders {
		file, err := os.Open(folder)
		if err != nil {
			return err
		}
		if err := errors.Join(file.Sync(), file.Close()); err != nil {
			return err
		}
	}
	return nil
}
