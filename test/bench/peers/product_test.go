package main

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
)

// kamajiLike has the files of a peer's folder.
var kamajiLike = map[string]string{
	productFile: "name: Other\nkubeconfig: {secret: \"${NAME}-admin\", key: admin.conf}\n",
	tenantFile:  "kind: Tenant\nmetadata: {name: \"${NAME}\", namespace: \"${NAMESPACE}\"}\nspec: {version: \"${VERSION}\"}\n",
}

func folderOf(t *testing.T, files map[string]string) string {
	t.Helper()
	folder, all := t.TempDir(), fstest.MapFS{}
	for name, content := range files {
		all[name] = &fstest.MapFile{Data: []byte(content)}
	}
	if err := os.CopyFS(folder, all); err != nil {
		t.Fatal(err)
	}
	return folder
}

func TestAPeerIsReadFromAFolder(t *testing.T) {
	files := maps.Clone(kamajiLike)
	files["images/manager.tar"], files[installFile] = "an archive", "kind: Deployment\n"
	folder := folderOf(t, files)
	p, err := readPeer(folder)
	if err != nil {
		t.Fatal(err)
	}
	if p.Name != "Other" || len(p.images) != 1 || p.install != filepath.Join(folder, installFile) {
		t.Errorf("it is %+v", p)
	}
	if secret, err := p.secret("one"); err != nil || secret != "one-admin" {
		t.Errorf("its kubeconfig is in Secret %s, %v", secret, err)
	}
	want := "kind: Tenant\nmetadata: {name: \"one\", namespace: \"one\"}\nspec: {version: \"v1.36.3\"}\n"
	if got, err := p.manifests("one", "v1.36.3"); err != nil || got != want {
		t.Errorf("its manifests are %s, %v", got, err)
	}
}

func TestAFolderThatIsNoPeerNamesWhatIsWrong(t *testing.T) {
	for name, test := range map[string]struct {
		file, content, says string
	}{
		"no description":      {productFile, "", "name \"\": it is"},
		"a name with a slash": {productFile, "name: a/b\nkubeconfig: {secret: a, key: b}\n", "name \"a/b\": it is"},
		"an unknown field":    {productFile, "name: Other\nkubekonfig: {}\n", "kubekonfig"},
		"no kubeconfig":       {productFile, "name: Other\nkubeconfig: {secret: a}\n", "kubeconfig.key"},
		"a variable of no Secret": {
			productFile, strings.ReplaceAll(kamajiLike[productFile], "${NAME}", "${NAME}-${NAMESPACE}"), productFile + ": kubeconfig.secret has the variable NAMESPACE",
		},
		"an unknown variable": {tenantFile, kamajiLike[tenantFile] + "# ${STORAGE}\n", `has the variables ["NAME" "NAMESPACE" "STORAGE" "VERSION"]`},
		"a fixed version":     {tenantFile, "metadata: {name: \"${NAME}\", namespace: \"${NAMESPACE}\"}\n", `has the variables ["NAME" "NAMESPACE"]`},
	} {
		t.Run(name, func(t *testing.T) {
			files := maps.Clone(kamajiLike)
			files[test.file] = test.content
			if _, err := readPeer(folderOf(t, files)); err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("the error is %v, want %q", err, test.says)
			}
		})
	}
	if _, err := readPeer(t.TempDir()); err == nil || !strings.Contains(err.Error(), productFile) {
		t.Errorf("an empty folder: %v", err)
	}
}

func TestOursIsDescribedAsAPeerIs(t *testing.T) {
	p, err := ours()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := p.manifests("one", "v1.36.3"); err != nil || !strings.Contains(got, "kind: KOKControlPlane") || !strings.Contains(got, "version: v1.36.3") || strings.Contains(got, "${") {
		t.Errorf("its manifests are %s, %v", got, err)
	}
}
