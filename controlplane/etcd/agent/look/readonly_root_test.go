//go:build root

package look

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/facts"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/reexec"
)

// The init container has the volume for reading alone. It runs as the user of etcd, to whom the files belong.
func TestADirectoryThatIsMountedForReadingAloneIsRead(t *testing.T) {
	const bind, broken = `mount --bind -o ro "$1" "$1"`,
		`copy=$(mktemp -d); cp -a "$1/." $copy; mount -t tmpfs none "$1"; cp -a $copy/. "$1"; rm -r $copy; mount -o remount,ro "$1"`
	for name, test := range map[string]struct {
		owner int
		mode  os.FileMode
		mount string
		// says is what is wrong; empty for nothing.
		says string
	}{
		"of its own":                 {owner: 65532, mode: 0o700, mount: bind},
		"that everybody may write":   {owner: 12345, mode: 0o777, mount: bind},
		"that others may only read":  {owner: 12345, mode: 0o755, mount: bind, says: "it belongs to user 12345"},
		"of a disk that gave errors": {owner: 65532, mode: 0o700, mount: broken, says: "can only be read"},
	} {
		t.Run(name, func(t *testing.T) {
			d := made(t)
			everybody(t, d.path)
			must(t, filepath.WalkDir(d.path, func(path string, _ os.DirEntry, err error) error {
				return errors.Join(err, os.Chmod(path, test.mode), os.Chown(path, test.owner, test.owner))
			}))
			program := exec.CommandContext(t.Context(), "unshare", "--mount", "sh", "-ec",
				test.mount+`; exec setpriv --reuid=65532 --regid=65532 --clear-groups "$0" "$1"`, forEverybody(t), d.path)
			program.Env = reexec.Command(t.Context(), role).Env
			f := Child(t.Context(), program)
			if test.says == "" && (f.State != facts.Present || !f.Checked) || test.says != "" && (f.Reason != facts.NotPermitted || !strings.Contains(f.Message, test.says)) {
				t.Errorf("it found %v", f)
			}
		})
	}
}
