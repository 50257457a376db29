package footprint

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/cloudinit"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/hosttest"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/onworker"
)

func TestFootprint(t *testing.T) {
	const sources, keys = "/etc/apt/sources.list.d/", "/etc/apt/trusted.gpg.d/"
	apt := func(files ...string) []string { return append(slices.Clone(aptFiles), files...) }
	for name, test := range map[string]struct {
		data  string
		files []string
		users []User
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
		"odd users":            {"users:\n- -rf\n- [a]\n- 'a b'\n- default\n- plain\n", []string{sudoersFile}, []User{{"plain", nil}}},
		"keys in a list":       {"users:\n- name: a\n  ssh_authorized_keys: ['no-pty ssh-ed25519 " + hosttest.TenantKey + " me', odd]\n", []string{sudoersFile}, []User{{"a", []string{hosttest.TenantKey}}}},
		"keys with names":      {"users:\n- name: a\n  ssh-authorized-keys: {me: ssh-ed25519 " + hosttest.TenantKey + "}\n", []string{sudoersFile}, []User{{"a", []string{hosttest.TenantKey}}}},
		"keys of no user":      {"ssh_authorized_keys: [ssh-ed25519 " + hosttest.TenantKey + "]\n", nil, []User{{"root", []string{hosttest.TenantKey}}}},
		"a user named twice": {"users:\n- name: a\n  ssh_authorized_keys: ssh-ed25519 " + hosttest.AdminKey + "\n- name: a\n  ssh_authorized_keys: ssh-ed25519 " + hosttest.TenantKey + "\n",
			[]string{sudoersFile}, []User{{"a", []string{hosttest.AdminKey, hosttest.TenantKey}}}},
		"sources of packages": {"apt: {sources: {b: {filename: c.list}, a: {}}}\n",
			apt(sources+"a.list", keys+"a.gpg", "/etc/apt/cloud-init.gpg.d/a.gpg", sources+"c.list", keys+"c.gpg", "/etc/apt/cloud-init.gpg.d/c.gpg"), nil},
		"a proxy of packages": {"apt: {http_proxy: http://a}\n", apt(), nil},
	} {
		t.Run(name, func(t *testing.T) {
			found := Of([]byte(test.data))
			if !slices.Equal(found.Files, test.files) || !reflect.DeepEqual(found.Users, test.users) {
				t.Errorf("%+v", found)
			}
		})
	}
	clock := Of([]byte("ntp: {}\n"))
	for _, file := range []string{"/etc/systemd/timesyncd.conf.d/cloud-init.conf", "/etc/chrony/chrony.conf", "/etc/chrony/chrony.conf.dist"} {
		if !slices.Contains(clock.Files, file) {
			t.Errorf("%s is not noted: %q", file, clock.Files)
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
	found := Of(data)
	for _, file := range []string{"/usr/local/bin/kubelet", "/usr/local/bin/kubelet.part", "/usr/local/bin/ctr", "/etc/systemd/system/kubelet.service"} {
		if !slices.Contains(found.Files, file) {
			t.Errorf("%s is not among %q", file, found.Files)
		}
	}
}
