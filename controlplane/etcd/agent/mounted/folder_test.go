package mounted

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/backup"
)

// kubelet changes all files of a Secret at once, by a link: what is read in one round fits together.
func TestFilesAreOfOneVersion(t *testing.T) {
	folder := t.TempDir()
	version := func(name, keys string) {
		t.Helper()
		must(t, os.Mkdir(filepath.Join(folder, name), 0o700))
		must(t, os.WriteFile(filepath.Join(folder, name, backup.KeysFile), []byte(keys), 0o600))
		link := filepath.Join(folder, "..new")
		must(t, os.Symlink(name, link))
		must(t, os.Rename(link, filepath.Join(folder, versions)))
	}
	must(t, os.Symlink(filepath.Join(versions, backup.KeysFile), filepath.Join(folder, backup.KeysFile)))
	version("..1", "one")
	first, err := OpenFolder(folder)
	must(t, err)
	version("..2", "two")
	second, err := OpenFolder(folder)
	must(t, err)
	for want, f := range map[string]Folder{"one": first, "two": second} {
		if keys, err := f.Keys(); err != nil || string(keys) != want {
			t.Errorf("it reads %q and not %q: %v", keys, want, err)
		}
	}
	if _, found, err := second.Seed(); found || err != nil {
		t.Errorf("there is a seed: %v", err)
	}
}

func TestFormerClustersAreThoseOfTheFile(t *testing.T) {
	folder := t.TempDir()
	f, err := OpenFolder(folder)
	must(t, err)
	if former, err := f.Former(); len(former) != 0 || err != nil {
		t.Errorf("without a file there are %v: %v", former, err)
	}
	path := filepath.Join(folder, backup.FormerFile)
	must(t, os.WriteFile(path, []byte(`{"clusterIDs":["00000000000000aa"]}`), 0o600))
	if former, err := f.Former(); len(former) != 1 || former[0] != "00000000000000aa" || err != nil {
		t.Errorf("there are %v: %v", former, err)
	}
	must(t, os.WriteFile(path, []byte("{"), 0o600))
	if former, err := f.Former(); err == nil {
		t.Errorf("of half a file there are %v", former)
	}
}

func TestSecretsAreNotTold(t *testing.T) {
	const secret = "AGE-SECRET-KEY-1NOTAKEY"
	folder := t.TempDir()
	must(t, os.WriteFile(filepath.Join(folder, backup.KeyFile), []byte(strings.Repeat("k", 32)), 0o600))
	must(t, os.WriteFile(filepath.Join(folder, backup.IdentityFile), []byte(secret), 0o600))
	f, err := OpenFolder(folder)
	must(t, err)
	if _, err := f.Reader(nil, nil); err == nil || strings.Contains(err.Error(), secret) || !strings.HasPrefix(err.Error(), backup.IdentityFile+": ") {
		t.Errorf("it says %v", err)
	}
	// Other keys are told apart, also where one is missing.
	before := f.KeyID()
	must(t, os.Remove(filepath.Join(folder, backup.IdentityFile)))
	if after := f.KeyID(); after == before || after != f.KeyID() {
		t.Errorf("it is %q, and was %q", after, before)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestAConfigurationThatIsNotThereIsYetToCome(t *testing.T) {
	folder, err := OpenFolder(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := folder.Config(); err == nil || !strings.Contains(err.Error(), "not there yet") {
		t.Errorf("it says %v", err)
	}
}
