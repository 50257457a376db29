package ssh

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

func FuzzAShellReadsQuotedArgumentsBackAsTheyWere(f *testing.F) {
	for _, arg := range []string{"", "plain", "two words", "it's", `"`, "$HOME", "`id`", "a;b", "a\nb", `\`, "!!", "~", "*", "--", "=x", "#x", "é", "\x80"} {
		f.Add(arg)
	}
	f.Fuzz(func(t *testing.T, arg string) {
		if strings.ContainsRune(arg, 0) {
			return // No argument of a program can hold it.
		}
		// What is quoted is for the shell that a server runs: nothing else tells whether it reads it so.
		out, err := exec.Command("/bin/sh", "-c", Quote([]string{"printf", "%s\n.", arg})).Output()
		if err != nil || string(out) != arg+"\n." {
			t.Errorf("%q came back as %q, %v", arg, out, err)
		}
	})
}

const hostKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHAj+gzk1xLq8xF8Uy1HDRvO3nDzVnPwD2zSTsmmmNYE"

func TestHostKeys(t *testing.T) {
	for name, test := range map[string]struct {
		line string
		good bool
	}{
		"a key":               {hostKey, true},
		"a key and a comment": {hostKey + " root@host", true},
		"nothing":             {"", false},
		"two lines":           {hostKey + "\n" + hostKey, false},
		"a line of known_hosts, which starts with names": {"host.example " + hostKey, false},
		"a fingerprint":               {"SHA256:uNiVztksCsDhcc0u9e8BrJQXVUpKZIDTMczCvj3tD2s", false},
		"options as of a user's keys": {`command="id" ` + hostKey, false},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := ParseHostKey(test.line); (err == nil) != test.good {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestCredentialsThatCannotBeReadSayNothingOfTheKey(t *testing.T) {
	for _, private := range []string{"", "secret-of-mine", "-----BEGIN OPENSSH PRIVATE KEY-----\nc2VjcmV0LW9mLW1pbmU=\n-----END OPENSSH PRIVATE KEY-----\n"} {
		if _, err := ParseCredentials([]byte(private), nil); err == nil || strings.Contains(err.Error(), "secret-of-mine") {
			t.Errorf("%q: %v", private, err)
		}
	}
}

func TestPinnedKeysChooseWhatAServerProvesItselfWith(t *testing.T) {
	key, err := ParseHostKey(hostKey)
	if err != nil {
		t.Fatal(err)
	}
	pins := &pinned{}
	pins.keys = append(pins.keys, key)
	algorithms := pins.algorithms()
	if algorithms[0] != "ssh-ed25519" || len(algorithms) < 4 {
		t.Errorf("algorithms are %v", algorithms)
	}
	slices.Sort(algorithms)
	if len(slices.Compact(algorithms)) != len(pins.algorithms()) {
		t.Errorf("one is there twice: %v", algorithms)
	}
}

func TestOutputIsBounded(t *testing.T) {
	kept := &bounded{}
	for written := 0; written < MaxOutput; written += 1 << 19 {
		if _, err := kept.Write(make([]byte, 1<<19)); err != nil || kept.dropped {
			t.Fatalf("after %d bytes: %v, dropped: %t", written, err, kept.dropped)
		}
	}
	if n, err := kept.Write([]byte("x")); n != 1 || err != nil || !kept.dropped || len(kept.kept) != MaxOutput {
		t.Errorf("%d bytes are kept, dropped: %t, %v", len(kept.kept), kept.dropped, err)
	}
}
