package former

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// withData has a data directory with something of a member.
func withData(t *testing.T, dataDir, what string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Join(dataDir, member), 0o700))
	must(t, os.WriteFile(filepath.Join(dataDir, member, "what"), []byte(what), 0o600))
}

// tree is what is in a folder.
func tree(t *testing.T, folder string) string {
	t.Helper()
	var all []string
	must(t, filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			content, readErr := os.ReadFile(path)
			all, err = append(all, strings.TrimPrefix(path, folder+"/")+"="+string(content)), readErr
		}
		return err
	}))
	return strings.Join(all, " ")
}

func TestDataAreMovedToAFolderOfTheirOwn(t *testing.T) {
	volume := t.TempDir()
	data := filepath.Join(volume, "data")
	for i, step := range []struct{ name, path, newest string }{
		{"00000000000000aa", "former/00000000000000aa-1", "former/00000000000000aa-1"},
		{"00000000000000aa", "former/00000000000000aa-2", "former/00000000000000aa-2"},
		{"00000000000000bb", "former/00000000000000bb-3", "former/00000000000000bb-3"},
		// What has no data is not what a survivor had last.
		{WithoutData, "former/without-data-4", "former/00000000000000bb-3"},
		{Unreadable, "former/unreadable-5", "former/unreadable-5"},
		{"00000000000000aa", "former/00000000000000aa-6", "former/00000000000000aa-6"},
	} {
		withData(t, data, step.path)
		a, err := PutAside(data, step.name)
		if err != nil || a != (Aside{filepath.Join(volume, step.path), step.name, i + 1}) {
			t.Fatalf("%s is put aside as %+v: %v", step.name, a, err)
		}
		if there, err := HasMember(data); there || err != nil {
			t.Errorf("something is left of %s: %v", step.name, err)
		}
		newest, found, err := Newest(data)
		if !found || err != nil || newest.Path != filepath.Join(volume, step.newest) {
			t.Errorf("after %s the newest is %+v: %v", step.path, newest, err)
		}
	}
	want := "00000000000000aa-1/member/what=former/00000000000000aa-1 00000000000000aa-2/member/what=former/00000000000000aa-2 " +
		"00000000000000aa-6/member/what=former/00000000000000aa-6 00000000000000bb-3/member/what=former/00000000000000bb-3 " +
		"unreadable-5/member/what=former/unreadable-5 without-data-4/member/what=former/without-data-4"
	if got := tree(t, filepath.Join(volume, "former")); got != want {
		t.Errorf("there are %s", got)
	}
}

func TestPutAsideGoesOnWhereItWasKilled(t *testing.T) {
	volume := t.TempDir()
	data := filepath.Join(volume, "data")
	withData(t, data, "x")
	must(t, os.MkdirAll(filepath.Join(volume, "former", "aa-1"), 0o700))
	// Nobody of this program makes these.
	must(t, os.MkdirAll(filepath.Join(volume, "former", "lost+found"), 0o700))
	must(t, os.MkdirAll(filepath.Join(volume, "former", "a-b", member), 0o700))
	if a, err := PutAside(data, "aa"); err != nil || a.Number != 1 {
		t.Errorf("it is put aside as %+v: %v", a, err)
	}
	if got := tree(t, filepath.Join(volume, "former")); got != "aa-1/member/what=x" {
		t.Errorf("there is %s", got)
	}
	if a, err := PutAside(data, "aa"); err == nil {
		t.Errorf("nothing is put aside as %+v", a)
	}
	if newest, found, err := Newest(data); !found || err != nil || newest.Number != 1 {
		t.Errorf("the newest is %+v: %v", newest, err)
	}
}

func TestADirectoryOfWhichNothingWasPutAsideHasNoNewest(t *testing.T) {
	if newest, found, err := Newest(filepath.Join(t.TempDir(), "data")); found || err != nil {
		t.Errorf("there is %+v: %v", newest, err)
	}
}
