package hosttest

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// There reports whether a file, a folder or a mount exists.
func (s *Simulated) There(file string) bool {
	if slices.Contains(s.Mounts, file) {
		return true
	}
	for name := range s.Files {
		if file == "/" || name == file || strings.HasPrefix(name, file+"/") {
			return true
		}
	}
	return false
}

func (s *Simulated) hasProgram(name string) bool {
	return s.There("/usr/bin/"+name) || s.There("/usr/local/bin/"+name)
}

// Remove removes a file or a folder, unless it is sticky.
func (s *Simulated) Remove(file string) {
	for name := range maps.Clone(s.Files) {
		if (name == file || strings.HasPrefix(name, file+"/")) && !s.Sticky[file] {
			delete(s.Files, name)
		}
	}
}

func (s *Simulated) cat(args []string) (string, int) {
	if args[0] == "/proc/self/mountinfo" {
		return s.mountinfo(), 0
	}
	return s.Files[args[0]], 0
}

func (s *Simulated) mountinfo() string {
	text := ""
	for i, mount := range s.Mounts {
		text += fmt.Sprintf("%d 1 0:5 / %s rw - tmpfs tmpfs rw\n", i+30, strings.ReplaceAll(mount, " ", `\040`))
	}
	return text
}

func (s *Simulated) head(args []string) (string, int) { return s.Files[operands(args)[0]], 0 }

// install makes an empty file. Folders need not be made.
func (s *Simulated) install(args []string) (string, int) {
	if last := len(args) - 1; args[last-1] == "/dev/null" {
		s.Files[args[last]] = ""
	}
	return "", 0
}

func (s *Simulated) dd(args []string) (string, int) {
	s.Files[strings.TrimPrefix(args[0], "of=")] = s.stdin
	return "", 0
}

// tar unpacks an archive into the root folder.
func (s *Simulated) tar([]string) (string, int) {
	reader := tar.NewReader(strings.NewReader(s.stdin))
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return "", 0
		}
		if err != nil {
			s.t.Errorf("unpack an archive: %v", err)
			return "", 2
		}
		content, err := io.ReadAll(reader)
		if err != nil {
			s.t.Errorf("unpack %s: %v", header.Name, err)
		}
		s.Files["/"+header.Name] = string(content)
	}
}

func (s *Simulated) mv(args []string) (string, int) {
	s.Files[args[2]] = s.Files[args[1]]
	delete(s.Files, args[1])
	return "", 0
}

func (s *Simulated) rm(args []string) (string, int) {
	for _, file := range operands(args) {
		if file == "/run/containerd" && len(s.Tasks) > 0 {
			s.t.Error("containers run, and nothing shows it any more")
		}
		if s.Remove(file); file == ContainerdDir && !s.There(file) {
			s.Images = nil
		}
	}
	return "", 0
}

func (s *Simulated) umount(args []string) (string, int) {
	point := args[len(args)-1]
	if s.Sticky[point] {
		return "", 32
	}
	s.Mounts = slices.DeleteFunc(s.Mounts, func(mount string) bool { return mount == point })
	return "", 0
}

// grep prints what matches in the first line with a match.
func (s *Simulated) grep(args []string) (string, int) {
	expression := regexp.MustCompile(args[3])
	for line := range strings.Lines(s.Files[args[4]]) {
		if found := expression.FindAllString(strings.TrimRight(line, "\n"), -1); len(found) > 0 {
			return strings.Join(found, "\n") + "\n", 0
		}
	}
	return "", 1
}

// sed deletes lines.
func (s *Simulated) sed(args []string) (string, int) {
	args = args[2:]
	file := args[len(args)-1]
	var lines []string
	for line := range strings.Lines(s.Files[file]) {
		if !slices.ContainsFunc(args[:len(args)-2], func(expression string) bool {
			key := strings.TrimSuffix(strings.TrimPrefix(expression, `--expression=\,`), ",d")
			return strings.Contains(line, key)
		}) {
			lines = append(lines, line)
		}
	}
	if !s.Sticky[file] {
		s.Files[file] = strings.Join(lines, "")
	}
	return "", 0
}

// stat prints the free space of file systems.
func (s *Simulated) stat(args []string) (text string, status int) {
	for _, folder := range args[2:] {
		numbers, said := s.Disks[folder]
		switch {
		case !said:
			numbers = "1000000 4096 500000 1000000"
		case numbers == "":
			status = 1
			continue
		}
		text += folder + " " + numbers + "\n"
	}
	return text, status
}

func (s *Simulated) find(args []string) (string, int) {
	found, status := "", 0
	switch {
	case slices.Contains(args, "-name"):
		for i, arg := range args {
			if arg == "-name" && s.hasProgram(args[i+1]) {
				found += "/usr/bin/" + args[i+1] + "\x00"
			}
		}
	case args[0] == tasksDir:
		for _, task := range s.Tasks {
			found += tasksDir + "/" + task + "\x00"
		}
	case slices.Contains(args, "-delete"):
		if s.Remove(args[0]); args[0] == ContainerdDir {
			s.Images = nil
		}
	case slices.Contains(args, "-not"):
		pruned, left := "", ""
		if i := slices.Index(args, "-prune"); i >= 0 {
			pruned, left = args[i-1]+"/", strings.TrimSuffix(args[len(args)-3], "*")
		}
		for name := range s.Files {
			if strings.HasPrefix(name, args[0]+"/") && (pruned == "" || !strings.HasPrefix(name, pruned) && !strings.HasPrefix(name, left)) {
				return name + "\x00", 0
			}
		}
	case slices.Contains(args, "-mindepth"):
	default:
		for _, file := range args[:slices.Index(args, "-maxdepth")] {
			if s.There(file) || file == tasksDir && len(s.Tasks) > 0 {
				found += file + "\x00"
			} else {
				status = 1
			}
		}
	}
	return found, status
}

func (s *Simulated) cp(args []string) (string, int) { return s.copy("", args) }

// env runs cp in another folder.
func (s *Simulated) env(args []string) (string, int) {
	return s.copy(strings.TrimPrefix(args[0], "--chdir="), args[2:])
}

func (s *Simulated) copy(in string, args []string) (string, int) {
	paths := operands(args)
	to := paths[len(paths)-1]
	for _, from := range paths[:len(paths)-1] {
		target := to
		if slices.Contains(args, "--parents") {
			target = to + "/" + from
		}
		for name, content := range maps.Clone(s.Files) {
			if below, ok := strings.CutPrefix(name, in+from); ok && (below == "" || below[0] == '/') {
				s.Files[target+below] = content
			}
		}
	}
	return "", 0
}

// realpath resolves a link, which leads to no other link.
func (s *Simulated) realpath(args []string) (text string, status int) {
	for _, file := range operands(args) {
		for link, target := range s.Symlinks {
			if below, ok := strings.CutPrefix(file, link); ok && (below == "" || below[0] == '/') {
				file = target + below
			}
		}
		text += file + "\x00"
	}
	return text, 0
}
