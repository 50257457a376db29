package store

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/reexec"
)

// Roles of this program: it writes until it is killed.
const (
	roleWrites  = "writes"
	roleUploads = "uploads"
)

func TestMain(m *testing.M) {
	var s Store
	var err error
	switch reexec.Role() {
	case roleWrites:
		s, err = OpenDirectory(os.Getenv("STORE"), FieldPerMember)
	case roleUploads:
		s, err = OpenS3(S3Config{Endpoint: os.Getenv("ENDPOINT"), Bucket: "snapshots", Prefix: "team/one", Credentials: os.Getenv("CREDENTIALS")})
	default:
		os.Exit(m.Run())
	}
	if err == nil {
		err = s.Put(context.Background(), "object", io.MultiReader(strings.NewReader(strings.Repeat("x", 1<<20)), os.Stdin))
	}
	panic(err)
}

func directory(t testing.TB, path string) *Directory {
	t.Helper()
	d, err := OpenDirectory(path, FieldClaimName)
	must(t, err)
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func TestADirectoryIsAStore(t *testing.T) {
	suite(t, func(t *testing.T) Store { return directory(t, t.TempDir()) })
}

// Who may write the volume puts links and pipes there.
func TestADirectoryFollowsNoLinks(t *testing.T) {
	outside, folder := t.TempDir(), t.TempDir()
	secret := filepath.Join(outside, "secret")
	must(t, os.WriteFile(secret, []byte("secret"), 0o600))
	must(t, os.WriteFile(filepath.Join(folder, "real"), []byte("real"), 0o600))
	for name, to := range map[string]string{"absolute": secret, "relative": "../" + filepath.Base(outside) + "/secret", "inside": "real", "dangling": "new"} {
		must(t, os.Symlink(to, filepath.Join(folder, name)))
	}
	must(t, syscall.Mkfifo(filepath.Join(folder, "pipe"), 0o600))
	must(t, os.Mkdir(filepath.Join(folder, "folder"), 0o700))
	d := directory(t, folder)
	for _, name := range []string{"absolute", "relative", "inside", "dangling", "pipe", "folder"} {
		if object, err := d.Get(t.Context(), name); err == nil {
			_ = object.Close()
			t.Errorf("%s is read", name)
		}
		if err := d.Put(t.Context(), name, strings.NewReader("x")); err == nil {
			t.Errorf("%s is written", name)
		}
	}
	objects, err := d.List(t.Context())
	if err != nil || len(objects) != 1 || objects[0].Name != "real" {
		t.Errorf("there are %v: %v", objects, err)
	}
	must(t, d.Delete(t.Context(), "absolute"))
	if err := d.Delete(t.Context(), "folder"); err == nil {
		t.Error("a folder is deleted")
	}
	if data, err := os.ReadFile(secret); string(data) != "secret" {
		t.Errorf("outside is %q: %v", data, err)
	}
	if _, err := os.Stat(filepath.Join(outside, "new")); err == nil {
		t.Error("something is outside")
	}
	link := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(folder, link))
	if _, err := OpenDirectory(link, FieldClaimName); FieldOf(err) != FieldClaimName {
		t.Errorf("a link to a folder: %v", err)
	}
}

func TestWhatIsWrongWithAVolumeNamesItsField(t *testing.T) {
	if _, err := OpenDirectory(filepath.Join(t.TempDir(), "none"), FieldClaimName); FieldOf(err) != FieldClaimName || !strings.Contains(err.Error(), "is not there: mount the volume") {
		t.Errorf("it says %v", err)
	}
	if _, err := OpenDirectory(filepath.Join(t.TempDir(), "none"), FieldPerMember); FieldOf(err) != FieldPerMember || !strings.Contains(err.Error(), "was made without volumes for snapshots") {
		t.Errorf("it says %v", err)
	}
	for says, cause := range map[string]error{"is full": syscall.ENOSPC, "can only be read": syscall.EROFS, "may not write the volume": syscall.EACCES, "gives errors": syscall.EIO} {
		d := &Directory{path: "/x", field: FieldClaimName}
		if err := d.problem("write a", &os.PathError{Op: "write", Path: "a", Err: cause}); FieldOf(err) != FieldClaimName || !strings.Contains(err.Error(), says) {
			t.Errorf("%v says %v", cause, err)
		}
	}
}

func TestAProgramThatIsKilledLeavesNoObject(t *testing.T) {
	folder := t.TempDir()
	program := reexec.Command(t.Context(), roleWrites)
	program.Env = append(program.Environ(), "STORE="+folder)
	never, err := program.StdinPipe()
	must(t, err)
	defer never.Close() //nolint:errcheck // Nothing was written.
	must(t, program.Start())
	half := func() string {
		found, err := filepath.Glob(filepath.Join(folder, partial+"*"))
		must(t, err)
		if len(found) == 1 {
			if info, err := os.Stat(found[0]); err == nil && info.Size() == 1<<20 {
				return found[0]
			}
		}
		return ""
	}
	deadline := time.After(time.Minute)
	for half() == "" {
		select {
		case <-deadline:
			t.Fatal("nothing is written")
		case <-time.After(time.Millisecond):
		}
	}
	must(t, program.Process.Kill())
	_ = program.Wait()
	d, left := directory(t, folder), half()
	if objects, err := d.List(t.Context()); err != nil || len(objects) != 0 || left == "" {
		t.Errorf("there are %v: %v", objects, err)
	}
	// It stays while somebody may be writing it, and is gone after a day.
	must(t, d.Put(t.Context(), "object", strings.NewReader("x")))
	if half() != left {
		t.Error("what may be in use is gone")
	}
	old := time.Now().Add(-2 * stale)
	must(t, os.Chtimes(left, old, old))
	must(t, d.Put(t.Context(), "another", strings.NewReader("x")))
	if half() != "" {
		t.Error("it is still there")
	}
}
