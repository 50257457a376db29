// Package accounts notes which users and SSH keys bootstrap data bring to a host, and takes them back. The host's own users
// get back what they had, and keys that people added meanwhile stay.
package accounts

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/footprint"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/records"
)

// Note records which users the bootstrap data add and change, and returns the files of authorized keys that cloud-init
// makes.
func Note(ctx context.Context, h *hosts.Host, users []footprint.User, record *records.Record) ([]string, error) {
	var added []string
	patterns, err := keyFilePatterns(ctx, h)
	if err != nil {
		return nil, err
	}
	for _, user := range users {
		home, there, err := lookUp(ctx, h, user.Name)
		if err != nil {
			return nil, err
		}
		if !there {
			record.Users = append(record.Users, user.Name)
		} else if unlocked, err := hasPassword(ctx, h, user.Name); err != nil {
			return nil, err
		} else if unlocked {
			record.Unlocked = append(record.Unlocked, user.Name)
		}
		if len(user.Keys) == 0 {
			continue
		}
		made, err := noteKeys(ctx, h, keyFiles(patterns, user.Name, home), user.Keys, record)
		if err != nil {
			return nil, err
		}
		added = append(added, made...)
	}
	return added, nil
}

// noteKeys records which keys are added to existing files of authorized keys, and returns the files that do not exist. It
// copies no existing file: keys that people add or remove meanwhile must stay as they are.
func noteKeys(ctx context.Context, h *hosts.Host, files, keys []string, record *records.Record) (missing []string, err error) {
	there, err := h.Existing(ctx, files...)
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		if !slices.Contains(there, file) {
			missing = append(missing, file)
			continue
		}
		content, err := h.Run(ctx, "cat", file)
		if err != nil {
			return nil, err
		}
		for _, key := range keys {
			if !strings.Contains(string(content), key) {
				if record.Keys == nil {
					record.Keys = map[string][]string{}
				}
				record.Keys[file] = append(record.Keys[file], key)
			}
		}
	}
	return missing, nil
}

// TakeBack removes users that came with the bootstrap data, and puts the host's own users back as they were.
func TakeBack(ctx context.Context, h *hosts.Host, record *records.Record) error {
	if err := forExisting(ctx, h, record.Users, "userdel", "--remove", "--force", "--"); err != nil {
		return err
	}
	if err := forExisting(ctx, h, record.Unlocked, "usermod", "--unlock", "--"); err != nil {
		return err
	}
	left, err := keysLeft(ctx, h, record)
	if err != nil {
		return err
	}
	for _, file := range left {
		args := []string{"sed", "--in-place", "--follow-symlinks"}
		for _, key := range record.Keys[file] {
			args = append(args, `--expression=\,`+key+",d") // Base64 has no commas, and nothing that sed takes for an operator.
		}
		if err := h.Change(ctx, append(args, "--", file)...); err != nil {
			return err
		}
	}
	return nil
}

// existing are those of the users that exist.
func existing(ctx context.Context, h *hosts.Host, names []string) ([]string, error) {
	var found []string
	for _, name := range names {
		if _, there, err := lookUp(ctx, h, name); err != nil {
			return nil, err
		} else if there {
			found = append(found, name)
		}
	}
	return found, nil
}

// forExisting runs a command for each of the users that exist.
func forExisting(ctx context.Context, h *hosts.Host, names []string, command ...string) error {
	names, err := existing(ctx, h, names)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := h.Change(ctx, slices.Concat(command, []string{name})...); err != nil {
			return err
		}
	}
	return nil
}

// keysLeft are the files of authorized keys that have keys of the bootstrap data.
func keysLeft(ctx context.Context, h *hosts.Host, record *records.Record) ([]string, error) {
	if len(record.Keys) == 0 {
		return nil, nil
	}
	there, err := h.Existing(ctx, slices.Sorted(maps.Keys(record.Keys))...)
	if err != nil {
		return nil, err
	}
	var left []string
	for _, file := range there {
		content, err := h.Run(ctx, "cat", file)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(record.Keys[file], func(key string) bool { return strings.Contains(string(content), key) }) {
			left = append(left, file)
		}
	}
	return left, nil
}

// lookUp reports whether a user exists, and returns its home folder.
func lookUp(ctx context.Context, h *hosts.Host, name string) (home string, there bool, err error) {
	args := []string{"getent", "passwd", name}
	result, err := h.Try(ctx, args...)
	switch {
	case err != nil:
		return "", false, err
	case result.ExitStatus == 0:
		fields := strings.Split(strings.TrimSpace(string(result.Stdout)), ":")
		if len(fields) >= 7 && path.IsAbs(fields[5]) {
			home = fields[5]
		}
		return home, true, nil
	case result.ExitStatus == 2: // getent(1): a key could not be found.
		return "", false, nil
	default:
		return "", false, hosts.Failure(args, result)
	}
}

// hasPassword reports whether a user may log in with a password of this host, which cloud-init locks.
func hasPassword(ctx context.Context, h *hosts.Host, name string) (bool, error) {
	// It fails for a user that is not in the host's own files.
	result, err := h.Try(ctx, "passwd", "--status", name)
	// passwd(1): the second field is P, or PS, for a usable password.
	fields := strings.Fields(string(result.Stdout))
	return len(fields) > 1 && strings.HasPrefix(fields[1], "P"), err
}

// defaultKeyFile is where cloud-init writes keys when the SSH server does not read them somewhere else.
const defaultKeyFile = "%h/.ssh/authorized_keys"

// keyFilePatterns are the files in which the SSH server looks for keys, and defaultKeyFile.
func keyFilePatterns(ctx context.Context, h *hosts.Host) ([]string, error) {
	patterns := []string{defaultKeyFile}
	programs, err := h.Programs(ctx)
	if err != nil || !slices.Contains(programs, "sshd") { // Another SSH server: cloud-init does not read its settings either.
		return patterns, err
	}
	output, err := h.Run(ctx, "sshd", "-T")
	if err != nil {
		return nil, fmt.Errorf("read where the SSH server has authorized keys: %w", err)
	}
	for line := range strings.Lines(string(output)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "authorizedkeysfile" {
			patterns = append(patterns, fields[1:]...)
		}
	}
	return patterns, nil
}

// keyFiles are a user's files of authorized keys (sshd_config(5), AuthorizedKeysFile). For a user that does not exist yet,
// files in its home are left out: they are removed with the user.
func keyFiles(patterns []string, name, home string) []string {
	var files []string
	for _, pattern := range patterns {
		if !path.IsAbs(pattern) && !strings.HasPrefix(pattern, "%h") {
			pattern = "%h/" + pattern
		}
		if pattern == "%h/none" || home == "" && strings.Contains(pattern, "%h") || !strings.Contains(pattern, "%h") && !strings.Contains(pattern, "%u") {
			continue
		}
		file := path.Clean(strings.NewReplacer("%%", "%", "%u", name, "%h", home).Replace(pattern))
		if path.IsAbs(file) && !slices.Contains(files, file) {
			files = append(files, file)
		}
	}
	return files
}

// Left names the users and keys of the bootstrap data that are still on the host.
func Left(ctx context.Context, h *hosts.Host, record *records.Record) ([]string, error) {
	users, err := existing(ctx, h, record.Users)
	if err != nil {
		return nil, err
	}
	files, err := keysLeft(ctx, h, record)
	return append(hosts.Named("user", users), hosts.Named("SSH keys in", files)...), err
}
