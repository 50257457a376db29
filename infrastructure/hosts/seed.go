package hosts

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"
)

//go:embed assets/kok-cloud-init.service
var unitContent []byte

//go:embed assets/99-kok.cfg
var cloudConfigContent []byte

// seed writes the files that cloud-init reads.
func (h *Host) seed(ctx context.Context, machine Machine) error {
	metaData, err := machine.metaData()
	if err != nil {
		return err
	}
	kubelet, err := h.kubeletDefaults(ctx, machine.ProviderID)
	if err != nil {
		return err
	}
	for _, step := range [][]string{
		{"rm", "-rf", "--", sentinelDir, seedDir},
		{"install", "-d", "-m", "0700", seedDir},
		{"install", "-d", "-m", "0755", "/etc/cloud/cloud.cfg.d", "/etc/default", "/run/systemd/system"},
	} {
		if _, err := h.run(ctx, step...); err != nil {
			return err
		}
	}
	files := []struct {
		path    string
		content []byte
	}{
		{seedDir + "/meta-data", metaData}, {seedDir + "/user-data", machine.UserData},
		{cloudConfigFile, cloudConfigContent}, {kubeletFile, kubelet}, {unitFile, unitContent},
	}
	for _, file := range files {
		if err := h.write(ctx, file.path, file.content); err != nil {
			return err
		}
	}
	_, err = h.run(ctx, "systemctl", "daemon-reload")
	return err
}

// note records what the machine will change, before anything changes.
func (h *Host) note(ctx context.Context, machine Machine, takenOver string) (*Record, error) {
	found := footprintOf(machine.UserData)
	record := &Record{
		Namespace: machine.Namespace, Name: machine.Name, InstanceID: machine.InstanceID, DataHash: machine.dataHash(), TakenOver: takenOver,
	}
	keyFiles, err := h.noteUsers(ctx, found.users, record)
	if err != nil {
		return nil, err
	}
	files := slices.Concat(found.files, keyFiles, []string{kubeletFile, hostnameFile, hostsFile, cloudConfigFile})
	there, err := h.existing(ctx, files...)
	if err != nil {
		return nil, err
	}
	record.Added = slices.DeleteFunc(files, func(file string) bool { return slices.Contains(there, file) })
	// A node's folders are emptied completely: no file in them is restored.
	there = slices.DeleteFunc(there, isNodes)
	record.Replaced = there
	hostname, err := h.run(ctx, "uname", "-n")
	if err != nil {
		return nil, err
	}
	record.Hostname = strings.TrimSpace(string(hostname))
	if record.Mounts, err = h.mountsBelow(ctx, nodePaths...); err != nil {
		return nil, err
	}
	if takenOver != "" { // Mounts inside of these folders are the node's, and go with it. Only a mount of a whole folder is the host's own.
		record.Mounts = slices.DeleteFunc(record.Mounts, func(point string) bool { return !slices.Contains(nodePaths, point) })
	}
	if record.Images, err = h.noteImages(ctx); err != nil {
		return nil, err
	}
	if record.Folders, err = h.noteFolders(ctx); err != nil {
		return nil, err
	}
	if _, err := h.run(ctx, "install", "-d", "-m", "0700", stateDir, originalsDir); err != nil {
		return nil, err
	}
	cloud, err := h.existing(ctx, cloudDir)
	if err != nil {
		return nil, err
	}
	record.CloudInit = len(cloud) > 0
	if originals := slices.Concat(there, cloud); len(originals) > 0 {
		// coreutils 9.1, which Debian 12 has, fails to keep the mode of absolute parents.
		copies := []string{"env", "--chdir=/", "cp", "--archive", "--parents", "--"}
		for _, file := range originals {
			copies = append(copies, strings.TrimPrefix(file, "/"))
		}
		copies = append(copies, originalsDir)
		if _, err := h.run(ctx, copies...); err != nil {
			return nil, fmt.Errorf("keep a copy of what will be replaced: %w", err)
		}
	}
	return record, h.writeRecord(ctx, record)
}

// kubeletDefaults is the host's own file of arguments for kubelet, with the provider ID added.
func (h *Host) kubeletDefaults(ctx context.Context, providerID string) ([]byte, error) {
	there, err := h.existing(ctx, kubeletFile)
	if err != nil || len(there) == 0 {
		return withProviderID("", providerID), err
	}
	content, err := h.run(ctx, "cat", kubeletFile)
	return withProviderID(string(content), providerID), err
}

const kubeletArguments = "KUBELET_EXTRA_ARGS="

// withProviderID adds the argument to an environment file (systemd.exec(5), EnvironmentFile).
func withProviderID(content, providerID string) []byte {
	argument := "--provider-id=" + providerID
	if strings.Contains(content, argument) {
		return []byte(content)
	}
	var lines []string
	added := false
	for line := range strings.SplitSeq(strings.TrimRight(content, "\n"), "\n") {
		if value, ok := strings.CutPrefix(line, kubeletArguments); ok && !added {
			added = true
			quote := ""
			if value != "" && (value[0] == '"' || value[0] == '\'') {
				quote, value = value[:1], value[1:]
			}
			separator := " "
			if value == "" || value == quote {
				separator = ""
			}
			line = kubeletArguments + quote + argument + separator + value
		}
		lines = append(lines, line)
	}
	if !added {
		lines = append(lines, kubeletArguments+argument)
	}
	return []byte(strings.TrimLeft(strings.Join(lines, "\n"), "\n") + "\n")
}
