package hosts

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/cloudinit"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/onworker"
)

func TestSecretsStayOutOfMessages(t *testing.T) {
	for secret, text := range map[string]string{
		"abcdef.0123456789abcdef":    "kubeadm join --token abcdef.0123456789abcdef",
		"eyJhbGciOi.eyJpc3MiOi.c2ln": "got eyJhbGciOi.eyJpc3MiOi.c2ln back",
		"hunter2":                    "Password: hunter2",
		"s3cret":                     `{"token": "s3cret"}`,
		"us3r:p4@ss":                 "https://us3r:p4@ss@mirror.example/kubelet: cannot be fetched",
		"us3r":                       "proxy HTTP://us3r@[2001:db8::1]:3128 refused",
		"abc-def":                    "Authorization: Bearer abc-def",
		"MC4CAQAwBQYDK2VwBCIEIA":     "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIA\n-----END PRIVATE KEY-----",
		"MC4CAQAwBQYDK2VwBCIEIB":     "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIB\n cut off",
		strings.Repeat("LS0tLS1CRUdJTiBDRVJU", 4): "content: " + strings.Repeat("LS0tLS1CRUdJTiBDRVJU", 4),
	} {
		if got := tidy("before " + text); strings.Contains(got, secret) || !strings.Contains(got, Redacted) || !strings.HasPrefix(got, "before ") {
			t.Errorf("%q became %q", text, got)
		}
	}
	for _, plain := range []string{
		"Get \"https://127.0.0.1:6443/readyz\": dial tcp 127.0.0.1:6443: connect: connection refused",
		"https://mirror.example/@scope/kubelet?mail=a@b: cannot be fetched", "admin@example was told of https://mirror.example",
	} {
		if got := tidy(plain); got != plain {
			t.Errorf("%q became %q", plain, got)
		}
	}
	if got, want := tidy("https://a:b@mirror.example/kubelet"), "https://"+Redacted+"@mirror.example/kubelet"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestATailIsBoundedAndPrintable(t *testing.T) {
	got := tail([]byte(strings.Repeat("\x1b[0mé\x00\xff\n", 5000)))
	if len(got) > maxTail+3 || !utf8.ValidString(got) || strings.ContainsAny(got, "\x00\x1b") || !strings.HasPrefix(got, "...") {
		t.Errorf("%d bytes: %q", len(got), got[:20])
	}
}

func TestMounts(t *testing.T) {
	const mountinfo = `22 1 8:1 / / rw - ext4 /dev/sda1 rw
30 22 0:5 / /var/lib/kubelet rw shared:1 - tmpfs tmpfs rw
31 30 0:6 / /var/lib/kubelet/pods/a/volumes/b\040c rw - tmpfs tmpfs rw
32 22 0:7 / /var/lib/kubelets rw - tmpfs tmpfs rw
short
`
	want := []string{"/var/lib/kubelet/pods/a/volumes/b c", "/var/lib/kubelet"}
	if got := parseMounts(mountinfo, []string{"/var/lib/kubelet"}); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

func TestOnlyANodesRulesGo(t *testing.T) {
	const saved = `# Generated
*nat
:PREROUTING ACCEPT [0:0]
:KUBE-SERVICES - [0:0]
:CNI-1a2b - [0:0]
:DOCKER - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A PREROUTING -j DOCKER
-A KUBE-SERVICES -d 10.96.0.1/32 -j KUBE-SVC-X
-A DOCKER -j RETURN
COMMIT
*filter
:INPUT DROP [0:0]
:cali-INPUT - [0:0]
:CILIUM_INPUT - [0:0]
:FORWARD ACCEPT [0:0]
-A INPUT -p tcp --dport 22 -m comment --comment "not for KUBE-" -j ACCEPT
-A INPUT -m comment --comment "cali:Cz_u1IQiXIMmKD4c" -j cali-INPUT
-A CILIUM_INPUT -j DROP
COMMIT
`
	const want = `*nat
-D PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-F KUBE-SERVICES
-F CNI-1a2b
-X KUBE-SERVICES
-X CNI-1a2b
COMMIT
*filter
-D INPUT -m comment --comment "cali:Cz_u1IQiXIMmKD4c" -j cali-INPUT
-F cali-INPUT
-F CILIUM_INPUT
-X cali-INPUT
-X CILIUM_INPUT
COMMIT
`
	if diff := cmp.Diff(want, removal(saved)); diff != "" {
		t.Error(diff)
	}
	if got := removal("*nat\n:PREROUTING ACCEPT [0:0]\nCOMMIT\n"); got != "" {
		t.Errorf("of a host's own rules go %q", got)
	}
}

func TestProviderIDIsAddedToKubeletsArguments(t *testing.T) {
	const added = "KUBELET_EXTRA_ARGS=--provider-id=idc://a/b"
	for before, want := range map[string]string{
		"":                                      added + "\n",
		"# mine\nA=b\n":                         "# mine\nA=b\n" + added + "\n",
		"KUBELET_EXTRA_ARGS=\n":                 added + "\n",
		"KUBELET_EXTRA_ARGS=--v=4":              added + " --v=4\n",
		"KUBELET_EXTRA_ARGS=\"--a --b\"\nC=d\n": "KUBELET_EXTRA_ARGS=\"--provider-id=idc://a/b --a --b\"\nC=d\n",
		"KUBELET_EXTRA_ARGS=''\n":               "KUBELET_EXTRA_ARGS='--provider-id=idc://a/b'\n",
	} {
		if got := string(withProviderID(before, "idc://a/b")); got != want {
			t.Errorf("%q became %q", before, got)
		}
	}
}

func TestFootprint(t *testing.T) {
	const sources, keys = "/etc/apt/sources.list.d/", "/etc/apt/trusted.gpg.d/"
	apt := func(files ...string) []string { return append(slices.Clone(aptFiles), files...) }
	for name, test := range map[string]struct {
		data  string
		files []string
		users []account
	}{
		"files": {"#cloud-config\nwrite_files:\n- path: /etc/motd\n- path: /etc/systemd/system/a@.service\n",
			[]string{"/etc/motd", "/etc/systemd/system/a@.service"}, nil},
		"one with a template": {"## template: jinja\n#cloud-config\nwrite_files:\n- path: /run/kubeadm/kubeadm.yaml\n", []string{"/run/kubeadm/kubeadm.yaml"}, nil},
		"a script":            {"#!/bin/sh\necho: a\n", nil, nil},
		"nothing":             {"", nil, nil},
		"downloads": {"write_files: [{path: " + onworker.DownloadsFile + ", encoding: b64, content: WyIvdXNyL2Jpbi9hIiwgIi91c3IvYmluL2EucGFydCJdCg==}]\n",
			[]string{onworker.DownloadsFile, "/usr/bin/a", "/usr/bin/a.part"}, nil},
		"downloads as text": {"write_files: [{path: " + onworker.DownloadsFile + ", content: '[\"/usr/bin/a\", \"relative\"]'}]\n", []string{onworker.DownloadsFile, "/usr/bin/a"}, nil},
		"a download of kok-software": {"write_files: [{path: " + onworker.DownloadsFile + ", content: '[\"/opt/kok-software/bin/kok-software\", \"/opt/kok-software.list\"]'}]\n",
			[]string{onworker.DownloadsFile, "/opt/kok-software.list"}, nil},
		"no list of downloads": {"write_files: [{path: " + onworker.DownloadsFile + ", content: '{}'}]\n", []string{onworker.DownloadsFile}, nil},
		"odd paths":            {"write_files:\n- path: relative\n- path: /etc/../etc/a\n- path: /etc/a\n- {}\n", []string{"/etc/a"}, nil},
		"odd users":            {"users:\n- -rf\n- [a]\n- 'a b'\n- default\n- plain\n", []string{sudoersFile}, []account{{"plain", nil}}},
		"keys in a list":       {"users:\n- name: a\n  ssh_authorized_keys: ['no-pty ssh-ed25519 " + tenantKey + " me', odd]\n", []string{sudoersFile}, []account{{"a", []string{tenantKey}}}},
		"keys with names":      {"users:\n- name: a\n  ssh-authorized-keys: {me: ssh-ed25519 " + tenantKey + "}\n", []string{sudoersFile}, []account{{"a", []string{tenantKey}}}},
		"keys of no user":      {"ssh_authorized_keys: [ssh-ed25519 " + tenantKey + "]\n", nil, []account{{"root", []string{tenantKey}}}},
		"a user named twice": {"users:\n- name: a\n  ssh_authorized_keys: ssh-ed25519 " + adminKey + "\n- name: a\n  ssh_authorized_keys: ssh-ed25519 " + tenantKey + "\n",
			[]string{sudoersFile}, []account{{"a", []string{adminKey, tenantKey}}}},
		"sources of packages": {"apt: {sources: {b: {filename: c.list}, a: {}}}\n",
			apt(sources+"a.list", keys+"a.gpg", "/etc/apt/cloud-init.gpg.d/a.gpg", sources+"c.list", keys+"c.gpg", "/etc/apt/cloud-init.gpg.d/c.gpg"), nil},
		"a proxy of packages": {"apt: {http_proxy: http://a}\n", apt(), nil},
	} {
		t.Run(name, func(t *testing.T) {
			found := footprintOf([]byte(test.data))
			if !slices.Equal(found.files, test.files) || !reflect.DeepEqual(found.users, test.users) {
				t.Errorf("%+v", found)
			}
		})
	}
	clock := footprintOf([]byte("ntp: {}\n"))
	for _, file := range []string{"/etc/systemd/timesyncd.conf.d/cloud-init.conf", "/etc/chrony/chrony.conf", "/etc/chrony/chrony.conf.dist"} {
		if !slices.Contains(clock.files, file) {
			t.Errorf("%s is not noted: %q", file, clock.files)
		}
	}
}

// What a KOKConfig's steps fetch is noted as what its document writes.
func TestTheFootprintOfAKOKConfigHasItsDownloads(t *testing.T) {
	in := cloudinit.Input{Version: "v1.36.3", Token: "abcdef.0123456789abcdef"}
	in.Cluster = cloudinit.Cluster{CABundle: []byte("CA"), APIServers: []string{"192.0.2.1:6443"}, ServiceCIDRs: []string{"10.96.0.0/12"}}
	in.Spec.Software = bootstrapv1.SoftwareSpec{Mode: bootstrapv1.SoftwareURLs, Downloads: []bootstrapv1.Download{
		{Path: "/usr/local/bin/kubelet", URLs: []string{"https://a.example/kubelet"}, SHA256: strings.Repeat("0", 64)},
		{Path: "/usr/local/bin/ctr", URLs: []string{"https://a.example/ctr"}, SHA256: strings.Repeat("0", 64)},
	}}
	data, err := cloudinit.Render(in)
	if err != nil {
		t.Fatal(err)
	}
	found := footprintOf(data)
	for _, file := range []string{"/usr/local/bin/kubelet", "/usr/local/bin/kubelet.part", "/usr/local/bin/ctr", "/etc/systemd/system/kubelet.service"} {
		if !slices.Contains(found.files, file) {
			t.Errorf("%s is not among %q", file, found.files)
		}
	}
}

// cloud-init lets user data from elsewhere take the place of the seed's, unless it is told that there is no elsewhere.
func TestCloudInitReadsTheSeedAlone(t *testing.T) {
	config := struct {
		Sources []string                  `json:"datasource_list"`
		Source  map[string]map[string]any `json:"datasource"`
	}{}
	if err := yaml.UnmarshalStrict(cloudConfigContent, &map[string]any{}); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(cloudConfigContent, &config); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(config.Sources, []string{"NoCloud"}) {
		t.Errorf("the data sources are %q", config.Sources)
	}
	for _, elsewhere := range []string{"fs_label", "seedfrom"} {
		if value, said := config.Source["NoCloud"][elsewhere]; !said || value != nil {
			t.Errorf("%s is %v", elsewhere, value)
		}
	}
}

func TestKeyFiles(t *testing.T) {
	for name, test := range map[string]struct {
		patterns []string
		home     string
		want     []string
	}{
		"in the home, by each way to say so": {[]string{"%h/.ssh/authorized_keys", ".ssh/authorized_keys"}, "/home/a", []string{"/home/a/.ssh/authorized_keys"}},
		"beside the home":                    {[]string{"/etc/keys/%u", "/etc/%%/%u"}, "/home/a", []string{"/etc/keys/a", "/etc/%/a"}},
		"of everybody, or nobody":            {[]string{"/etc/keys/all", "none"}, "/home/a", nil},
		"of a user without a home yet":       {[]string{"%h/.ssh/authorized_keys", "/etc/keys/%u"}, "", []string{"/etc/keys/a"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := keyFiles(test.patterns, "a", test.home); !slices.Equal(got, test.want) {
				t.Errorf("%q", got)
			}
		})
	}
}

func TestJudge(t *testing.T) {
	ended := unitState{loaded: true, active: "active"}
	for name, test := range map[string]struct {
		sentinel bool
		unit     unitState
		status   *cloudInitStatus
		state    State
		detail   string
	}{
		"the sentinel counts":                   {true, unitState{loaded: true, active: "activating"}, nil, Done, ""},
		"a stage that runs is named":            {false, unitState{loaded: true, active: "activating"}, &cloudInitStatus{Status: "running", Detail: "Running in stage: modules-final"}, Running, "Running in stage: modules-final"},
		"what was said before a start is old":   {false, unitState{loaded: true, active: "activating"}, &cloudInitStatus{Status: "done", Detail: "old"}, Running, "cloud-init starts"},
		"a reboot in the middle is waited for":  {false, unitState{active: "inactive"}, &cloudInitStatus{Status: "running", Detail: "Running in stage: init"}, Running, "after a reboot"},
		"an error is told":                      {false, ended, &cloudInitStatus{Status: "error", Errors: []string{"a", "b"}}, Failed, "cloud-init failed: a; b"},
		"an end without success is a failure":   {false, ended, &cloudInitStatus{Status: "done"}, Failed, "there is no /run/cluster-api/bootstrap-success.complete"},
		"a cloud-init that is switched off":     {false, ended, &cloudInitStatus{Status: "disabled", BootStatusCode: "disabled-by-marker-file"}, Failed, "disabled-by-marker-file"},
		"newer versions have more words for it": {false, ended, &cloudInitStatus{Status: "error - done", Errors: []string{"x"}}, Failed, "cloud-init failed: x"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := judge(test.sentinel, test.unit, test.status); got.State != test.state || !strings.Contains(got.Detail, test.detail) {
				t.Errorf("%+v", got)
			}
		})
	}
}
