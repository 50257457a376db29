package hosts

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/ssh"
)

func TestProbe(t *testing.T) {
	for name, test := range map[string]struct {
		edit    func(*simulated)
		reason  string
		message string
	}{
		"a good host": {func(*simulated) {}, "", ""},
		"no sudo": {func(s *simulated) { s.noSudo = true }, SudoMissing,
			`the user may not run commands as root without a password (sudo: a password is required); allow it`},
		"no cloud-init": {func(s *simulated) { s.remove("/usr/bin/cloud-init") }, SoftwareMissing,
			"cloud-init is not in /usr/bin, /usr/sbin or below /usr/local; install it, for example with apt-get install cloud-init"},
		"no iproute2":             {func(s *simulated) { s.remove("/usr/bin/ip") }, SoftwareMissing, "install it, for example with apt-get install iproute2"},
		"no nftables":             {func(s *simulated) { s.remove("/usr/bin/nft") }, SoftwareMissing, "install it, for example with apt-get install nftables"},
		"cloud-init switched off": {func(s *simulated) { s.files[disabledFile] = "" }, SoftwareMissing, "is switched off by " + disabledFile},
		"a full disk": {func(s *simulated) { s.disks = map[string]string{"/var/lib": "100000 4096 500000 1000000"} },
			DiskFull, "the file system of /var/lib has 390 MiB free, 1024 MiB are needed; make room on it"},
		"a full disk for images": {func(s *simulated) { s.disks = map[string]string{"/var/lib/containerd": "0 4096 500000 1000000"} },
			DiskFull, "the file system of /var/lib/containerd has 0 MiB free, 1024 MiB are needed; make room on it"},
		"no folders of a node yet": {func(s *simulated) { s.disks = map[string]string{"/var/lib/containerd": "", "/var/lib/kubelet": ""} }, "", ""},
		"no inodes": {func(s *simulated) { s.disks = map[string]string{"/": "1000000 4096 9 1000000"} },
			DiskFull, "the file system of / has 9 inodes free, 10000 are needed"},
		"a file system without inodes": {func(s *simulated) { s.disks = map[string]string{"/": "1000000 4096 0 0"} }, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSimulated(t)
			test.edit(s)
			facts, problem, err := New(s, "admin").Probe(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if problem == nil {
				problem = &Problem{}
			}
			if problem.Reason != test.reason || !strings.Contains(problem.Message, test.message) {
				t.Errorf("%+v", problem)
			}
			if !s.noSudo && (facts == nil || facts.Architecture != "amd64" || facts.OSImage != "Debian GNU/Linux 12" || facts.CPUs != 4 || facts.Memory != 8032000<<10 || fmt.Sprint(facts.Programs) != "[containerd ctr]") {
				t.Errorf("%+v", facts)
			}
		})
	}
}

// What went wrong since the host was claimed has the same words as what a free host suffers from.
func TestABootstrapThatCannotGoOnSaysWhatIsWrongWithTheHost(t *testing.T) {
	for name, test := range map[string]struct {
		edit    func(*simulated)
		reason  string
		message string
	}{
		"no sudo": {func(s *simulated) { s.noSudo = true }, SudoMissing,
			"the user may not run commands as root without a password (sudo: a password is required); allow it"},
		"a full disk": {func(s *simulated) {
			s.disks = map[string]string{"/var/lib/cloud": "0 4096 500000 1000000"}
			s.answers["install -m 0600 /dev/null "+temporaryOf(seedDir+"/user-data")] = ssh.Result{ExitStatus: 1, Stderr: []byte("No space left on device\n")}
		}, DiskFull, "the file system of /var/lib/cloud has 0 MiB free, 1024 MiB are needed; make room on it (prepare the host for cloud-init: write /var/lib/cloud/seed/nocloud/user-data: install"},
		"something that we know nothing of": {func(s *simulated) {
			s.answers["systemctl start --no-block "+unitName] = ssh.Result{ExitStatus: 4, Stderr: []byte("Failed to connect to bus\n")}
		}, "", "start cloud-init: systemctl start --no-block kok-cloud-init.service ended with status 4: Failed to connect to bus"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSimulated(t)
				h := New(s, "admin")
				test.edit(s)
				_, err := h.Bootstrap(t.Context(), worker())
				if err == nil || !strings.HasPrefix(err.Error(), test.message) {
					t.Errorf("it says %v", err)
				}
				var failed *ProblemError
				if errors.As(err, &failed) != (test.reason != "") || failed != nil && failed.Problem.Reason != test.reason {
					t.Errorf("it is %+v", failed)
				}
				s.noSudo, s.disks, s.answers = false, nil, map[string]ssh.Result{}
				if progress, err := untilEnded(t.Context(), h, worker()); err != nil || progress.State != Done {
					t.Errorf("put right: %+v, %v", progress, err)
				}
			})
		})
	}
}
