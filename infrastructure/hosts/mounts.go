package hosts

import (
	"context"
	"errors"
	"path"
	"slices"
	"strconv"
	"strings"
)

// MountsBelow are the mount points in and below the folders, the latest mount first.
func (h *Host) MountsBelow(ctx context.Context, folders ...string) ([]string, error) {
	output, err := h.Run(ctx, "cat", "/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	return parseMounts(string(output), folders), nil
}

// parseMounts reads mountinfo (proc_pid_mountinfo(5)): the fifth field is the mount point, in which
// blanks and backslashes are octal.
func parseMounts(mountinfo string, folders []string) []string {
	var points []string
	for line := range strings.Lines(mountinfo) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		// The kernel never writes two dots. A host that does would make umount work outside of the folders.
		point := unescape(fields[4])
		if path.Clean(point) == point && slices.ContainsFunc(folders, func(folder string) bool { return point == folder || strings.HasPrefix(point, folder+"/") }) {
			points = append(points, point)
		}
	}
	slices.Reverse(points)
	return points
}

func unescape(field string) string {
	text := &strings.Builder{}
	for i := 0; i < len(field); i++ {
		if field[i] == '\\' && i+3 < len(field) {
			if code, err := strconv.ParseUint(field[i+1:i+4], 8, 8); err == nil {
				text.WriteByte(byte(code))
				i += 3
				continue
			}
		}
		text.WriteByte(field[i])
	}
	return text.String()
}

// Unmount unmounts the points in their order. It unmounts a busy volume lazily, which hides it at once, so that a later
// removal cannot reach into it. When one point stays, it goes on with the others.
func (h *Host) Unmount(ctx context.Context, points []string) error {
	var problems []error
	for _, point := range points {
		unmount := []string{"umount", "--", point}
		result, err := h.Try(ctx, unmount...)
		if err != nil {
			return errors.Join(append(problems, err)...)
		}
		if result.ExitStatus == 0 {
			logChange(ctx, unmount...)
			continue
		}
		if err := h.Change(ctx, "umount", "--lazy", "--", point); err != nil {
			problems = append(problems, err)
		}
	}
	return errors.Join(problems...)
}
