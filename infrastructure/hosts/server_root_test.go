//go:build root

package hosts_test

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/accounts"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/footprint"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/hosttest"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/koksoftware"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/ownership"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/probe"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/records"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/ssh"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/ssh/sshtest"
)

// The commands that only touch what they are told to, on a real system by a real SSH server.
func TestCommandsOnARealSystem(t *testing.T) {
	s := sshtest.Start(t)
	credentials, err := ssh.ParseCredentials(s.UserKey.Private, nil)
	if err != nil {
		t.Fatal(err)
	}
	connection, err := ssh.Dial(t.Context(), ssh.Target{Host: ssh.Server{
		Address: s.Address, Port: s.Port, User: s.User, Credentials: credentials, HostKeys: []string{s.HostKey},
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(connection.Close)
	h := hosts.New(connection, s.User)
	file := filepath.Join(t.TempDir(), "it's a $file")

	t.Run("a file is written whole and for root alone", func(t *testing.T) {
		content := strings.Repeat("a\x00'\"$(id)\n", 100_000)
		if err := h.Write(t.Context(), file, []byte(content)); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(file)
		if err != nil || string(got) != content {
			t.Errorf("%d bytes of %d, %v", len(got), len(content), err)
		}
		info, err := os.Stat(file)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
		if entries, err := os.ReadDir(filepath.Dir(file)); err != nil || len(entries) != 1 {
			t.Errorf("there are %v, %v", entries, err)
		}
	})
	t.Run("files are written together, for root alone", func(t *testing.T) {
		folder := filepath.Join(t.TempDir(), "a new folder")
		written := map[string]string{filepath.Join(folder, "it's a $file"): strings.Repeat("a\x00'\"$(id)\n", 100_000), filepath.Join(folder, strings.Repeat("long", 50)): ""}
		for range 2 {
			var files []hosts.File
			for file, content := range written {
				files = append(files, hosts.File{Path: file, Content: []byte(content)})
			}
			if err := h.WriteTogether(t.Context(), files...); err != nil {
				t.Fatal(err)
			}
			for file, content := range written {
				got, err := os.ReadFile(file)
				if err != nil || string(got) != content {
					t.Errorf("%s: %d bytes of %d, %v", file, len(got), len(content), err)
				}
				info, err := os.Stat(file)
				if err != nil || info.Mode().Perm() != 0o600 {
					t.Errorf("%s: %v, %v", file, info.Mode(), err)
				}
				written[file] = "shorter"
			}
		}
		if err := h.WriteTogether(t.Context(), hosts.File{Path: "/proc/no/file"}); err == nil || !strings.Contains(err.Error(), "/proc/no/file") {
			t.Errorf("a file that cannot be written: %v", err)
		}
	})
	t.Run("what is there is told from what is not", func(t *testing.T) {
		got, err := h.Existing(t.Context(), file, "/no/such", "/etc/passwd")
		if err != nil || !slices.Equal(got, []string{file, "/etc/passwd"}) {
			t.Errorf("%q, %v", got, err)
		}
	})
	t.Run("a machine's SSH keys go, and no others", func(t *testing.T) {
		keys := filepath.Join(t.TempDir(), "authorized_keys")
		ours, theirs := "ssh-ed25519 "+hosttest.AdminKey+" admin\n", "no-pty ssh-ed25519 "+hosttest.TenantKey+" tenant\n"
		if err := os.WriteFile(keys, []byte("# keys\n"+theirs+ours), 0o640); err != nil {
			t.Fatal(err)
		}
		record := &records.Record{Keys: map[string][]string{keys: {hosttest.TenantKey}}}
		if left, err := accounts.Left(t.Context(), h, record); err != nil || !slices.Equal(left, []string{"SSH keys in " + keys}) {
			t.Errorf("there are %q, %v", left, err)
		}
		if err := accounts.TakeBack(t.Context(), h, record); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(keys); err != nil || string(got) != "# keys\n"+ours {
			t.Errorf("%q, %v", got, err)
		}
		if info, err := os.Stat(keys); err != nil || info.Mode().Perm() != 0o640 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
	})
	t.Run("why software is not there is read, and no more than its bound", func(t *testing.T) {
		result := filepath.Join(t.TempDir(), "result.json")
		const most = 64 << 10
		const said = `{"reason": "SoftwareNotAvailable", "component": "kubelet", "message": "see to the mirror"}`
		for content, want := range map[string]*software.Result{
			"": nil, said: {Reason: software.NoSource, Component: "kubelet", Message: "see to the mirror"},
			said + strings.Repeat(" ", most-len(said)): {Reason: software.NoSource, Component: "kubelet", Message: "see to the mirror"},
			strings.Repeat(" ", most) + said:           nil,
		} {
			if content != "" {
				if err := os.WriteFile(result, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got, err := koksoftware.Problem(t.Context(), h, result)
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%d bytes: %+v, %v", len(content), got, err)
			}
			if err := os.RemoveAll(result); err != nil {
				t.Fatal(err)
			}
		}
	})
	t.Run("software is undone by its own program, whatever that writes", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "kok-software")
		for script, want := range map[string]string{
			"yes | head --bytes=3000000; test $1 = remove && rm -r " + dir: "",
			"yes 'a word' | tr '\\n' ' ' | head --bytes=9000 >&2; exit 3":  "kok-software remove ended with status 3: a word a word",
		} {
			program := writeProgram(t, dir, "#!/bin/sh\n"+script+"\n")
			err := h.ChangeSilently(t.Context(), program, "remove")
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 2*hosts.MaxLine) {
				t.Errorf("%v", err)
			}
			if _, err := os.Stat(dir); os.IsNotExist(err) == (want != "") {
				t.Errorf("its folder: %v", err)
			}
		}
	})
	t.Run("a folder of software goes without its program when nothing else is in it", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "kok-software")
		part := writeProgram(t, dir, "part")
		if err := os.Rename(part, part+".part"); err != nil {
			t.Fatal(err)
		}
		state := filepath.Join(dir, "state", "installed.json")
		if err := os.MkdirAll(filepath.Dir(state), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(state, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := koksoftware.Remove(t.Context(), h, dir, nothingRuns); err == nil || !strings.HasPrefix(err.Error(), state+" is there, and the program "+part) {
			t.Errorf("%v", err)
		}
		if err := os.Remove(state); err != nil {
			t.Fatal(err)
		}
		if err := koksoftware.Remove(t.Context(), h, dir, nothingRuns); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("%v", err)
		}
		if err := koksoftware.Remove(t.Context(), h, dir, nothingRuns); err != nil {
			t.Errorf("once more: %v", err)
		}
	})
	t.Run("a user's home and password are known", func(t *testing.T) {
		record := &records.Record{}
		users := []footprint.User{{Name: "root", Keys: []string{hosttest.TenantKey}}, {Name: "no-such-user"}, {Name: "nobody"}}
		made, err := accounts.Note(t.Context(), h, users, record)
		if err != nil || !slices.Equal(record.Users, []string{"no-such-user"}) || slices.Contains(record.Unlocked, "nobody") {
			t.Errorf("%+v, %v", record, err)
		}
		const keys = "/root/.ssh/authorized_keys"
		if _, noted := record.Keys[keys]; !noted && !slices.Contains(made, keys) {
			t.Errorf("%+v, %q", record, made)
		}
	})
	t.Run("folders are removed", func(t *testing.T) {
		if err := h.Remove(t.Context(), filepath.Dir(file), "/no/such"); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(file); !os.IsNotExist(err) {
			t.Errorf("%v", err)
		}
	})
	t.Run("a write that fails names the file", func(t *testing.T) {
		if err := h.Write(t.Context(), "/no/such/file", nil); err == nil || !strings.Contains(err.Error(), "write /no/such/file: install") {
			t.Errorf("%v", err)
		}
	})
	t.Run("the system's own mounts are found", func(t *testing.T) {
		points, err := h.MountsBelow(t.Context(), "/proc")
		if err != nil || !slices.Contains(points, "/proc") {
			t.Errorf("%q, %v", points, err)
		}
	})
	t.Run("the system's own addresses can be read", func(t *testing.T) {
		usage, err := ownership.Observe(t.Context(), h, []string{"ip"})
		if err != nil {
			t.Fatal(err)
		}
		for _, address := range usage.Addresses {
			if !address.IsGlobalUnicast() {
				t.Errorf("%s is among them", address)
			}
		}
	})
	t.Run("a probe says what the system is", func(t *testing.T) {
		facts, problem, err := probe.Run(t.Context(), h)
		if err != nil || facts == nil || facts.CPUs < 1 || facts.Memory < 1<<28 || facts.OSImage == "" || facts.KernelVersion == "" {
			t.Errorf("%+v, %v, %v", facts, problem, err)
		}
	})
}

func nothingRuns(context.Context, *hosts.Host) ([]string, error) { return nil, nil }

// writeProgram writes a program where kok-software is in its folder.
func writeProgram(t *testing.T, dir, content string) string {
	t.Helper()
	program := filepath.Join(dir, "bin", "kok-software")
	if err := os.MkdirAll(filepath.Dir(program), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, []byte(content), 0o755); err != nil {
		t.Fatal(err)
	}
	return program
}
