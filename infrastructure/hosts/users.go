package hosts

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// noteUsers records which users the bootstrap data add and change, and returns the files of authorized keys that cloud-init
// makes.
func (h *Host) noteUsers(ctx context.Context, users []account, record *Record) ([]string, error) {
	var added []string
	patterns, err := h.keyFilePatterns(ctx)
	if err != nil {
		return nil, err
	}
	for _, user := range users {
		home, there, err := h.user(ctx, user.name)
		if err != nil {
			return nil, err
		}
		if !there {
			record.Users = append(record.Users, user.name)
		} else if unlocked, err := h.hasPassword(ctx, user.name); err != nil {
			return nil, err
		} else if unlocked {
			record.Unlocked = append(record.Unlocked, user.name)
		}
		if len(user.keys) == 0 {
			continue
		}
		made, err := h.noteKeys(ctx, keyFiles(patterns, user.name, home), user.keys, record)
		if err != nil {
			return nil, err
		}
		added = append(added, made...)
	}
	return added, nil
}

// noteKeys records which keys are added to existing files of authorized keys, and returns the files that do not exist. It
// copies no existing file: keys that people add or remove meanwhile must stay as they are.
func (h *Host) noteKeys(ctx context.Context, files, keys []string, record *Record) (missing []string, err error) {
	there, err := h.existing(ctx, files...)
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		if !slices.Contains(there, file) {
			missing = append(missing, file)
			continue
		}
		content, err := h.run(ctx, "cat", file)
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

// takeBackUsers removes users that came with the bootstrap data, and puts the host's own users back as they were.
func (h *Host) takeBackUsers(ctx context.Context, record *Record) error {
	for _, name := range record.Users {
		if _, there, err := h.user(ctx, name); err != nil {
			return err
		} else if !there {
			continue
		}
		if _, err := h.run(ctx, "userdel", "--remove", "--force", "--", name); err != nil {
			return err
		}
	}
	for _, name := range record.Unlocked {
		if _, there, err := h.user(ctx, name); err != nil {
			return err
		} else if !there {
			continue
		}
		if _, err := h.run(ctx, "usermod", "--unlock", "--", name); err != nil {
			return err
		}
	}
	left, err := h.keysLeft(ctx, record)
	if err != nil {
		return err
	}
	for _, file := range left {
		args := []string{"sed", "--in-place", "--follow-symlinks"}
		for _, key := range record.Keys[file] {
			args = append(args, `--expression=\,`+key+",d") // Base64 has no commas, and nothing that sed takes for an operator.
		}
		if _, err := h.run(ctx, append(args, "--", file)...); err != nil {
			return err
		}
	}
	return nil
}

// keysLeft are the files of authorized keys that have keys of the bootstrap data.
func (h *Host) keysLeft(ctx context.Context, record *Record) ([]string, error) {
	if len(record.Keys) == 0 {
		return nil, nil
	}
	there, err := h.existing(ctx, slices.Sorted(maps.Keys(record.Keys))...)
	if err != nil {
		return nil, err
	}
	var left []string
	for _, file := range there {
		content, err := h.run(ctx, "cat", file)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(record.Keys[file], func(key string) bool { return strings.Contains(string(content), key) }) {
			left = append(left, file)
		}
	}
	return left, nil
}

// user reports whether a user exists, and returns its home folder.
func (h *Host) user(ctx context.Context, name string) (home string, there bool, err error) {
	args := []string{"getent", "passwd", name}
	result, err := h.try(ctx, args...)
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
		return "", false, &CommandError{Command: args, ExitStatus: result.ExitStatus, Output: lastLine(result.Stderr)}
	}
}

// hasPassword reports whether a user may log in with a password of this host, which cloud-init locks.
func (h *Host) hasPassword(ctx context.Context, name string) (bool, error) {
	// It fails for a user that is not in the host's own files.
	result, err := h.try(ctx, "passwd", "--status", name)
	// passwd(1): the second field is P, or PS, for a usable password.
	fields := strings.Fields(string(result.Stdout))
	return len(fields) > 1 && strings.HasPrefix(fields[1], "P"), err
}

// defaultKeyFile is where cloud-init writes keys when the SSH server does not read them somewhere else.
const defaultKeyFile = "%h/.ssh/authorized_keys"

// keyFilePatterns are the files in which the SSH server looks for keys, and defaultKeyFile.
func (h *Host) keyFilePatterns(ctx context.Context) ([]string, error) {
	patterns := []string{defaultKeyFile}
	programs, err := h.programs(ctx)
	if err != nil || !slices.Contains(programs, "sshd") { // Another SSH server: cloud-init does not read its settings either.
		return patterns, err
	}
	output, err := h.run(ctx, "sshd", "-T")
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
