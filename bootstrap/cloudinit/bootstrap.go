package cloudinit

import (
	"embed"
	"encoding/json"
	"fmt"
	"strings"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/unit"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/onworker"
)

//go:embed assets
var assets embed.FS

// asset is a file that is the same on every machine.
func asset(name string) []byte {
	content, err := assets.ReadFile("assets/" + name)
	if err != nil {
		panic(err)
	}
	return content
}

const (
	fetchProgram   = onworker.StepDir + "fetch"
	downloadPrefix = onworker.StepDir + "download-"
	successFile    = onworker.StepDir + "success"
	// partSuffix is what the fetch program adds to the name of an incomplete file.
	partSuffix = ".part"
)

// steps collects the command lines of the bootstrap unit, and the files that they need.
type steps struct {
	lines []string
	files []writeFile
	err   error
}

func (s *steps) run(program string, args ...string) {
	line, err := commandLine(program, args...)
	if err != nil && s.err == nil {
		s.err = err
	}
	s.lines = append(s.lines, line)
}

// commands run the user's commands, each from a file of its own.
func (s *steps) commands(name string, commands []string) {
	for i, command := range commands {
		path := fmt.Sprintf("%s%s-%02d", onworker.StepDir, name, i)
		s.files = append(s.files, ownFile(path, "0700", []byte(command+"\n")))
		s.run("/bin/sh", "-e", path)
	}
}

// downloads fetch files, each from the URLs in a file of its own: a URL may hold credentials, and every user of the
// machine can read a unit's command lines, whatever the permissions of its file.
func (s *steps) downloads(downloads []bootstrapv1.Download) error {
	if len(downloads) == 0 {
		return nil
	}
	s.files = append(s.files, ownFile(fetchProgram, "0755", asset("fetch.sh")))
	var paths []string
	for i, download := range downloads {
		download, err := checkedDownload(fmt.Sprintf("software.downloads[%d]", i), download)
		if err != nil {
			return err
		}
		paths = append(paths, download.Path, download.Path+partSuffix)
		urls := fmt.Sprintf("%s%02d.urls", downloadPrefix, i)
		s.files = append(s.files, ownFile(urls, "0600", []byte(strings.Join(download.URLs, "\n")+"\n")))
		s.run("/bin/sh", fetchProgram, download.SHA256, download.Mode, download.Path, urls)
	}
	list, err := json.Marshal(paths)
	if err != nil {
		return fmt.Errorf("list the files of spec.software.downloads: %w", err)
	}
	s.files = append(s.files, ownFile(onworker.DownloadsFile, "0644", append(list, '\n')))
	return nil
}

// addBootstrap adds the unit that runs all steps of the bootstrap in order, and the command that starts it.
func addBootstrap(d *document, in *Input) error {
	s := &steps{}
	s.run("/bin/rm", "--force", onworker.SentinelFile)
	switch in.Spec.Software.Mode {
	case bootstrapv1.SoftwarePackages, bootstrapv1.SoftwareURLs:
		if err := s.downloads(in.Spec.Software.Downloads); err != nil {
			return err
		}
	case bootstrapv1.SoftwareDescribed:
		if err := s.install(in.Software); err != nil {
			return err
		}
	}
	s.commands("pre-kubelet", in.Spec.PreKubeletCommands)
	s.run("/bin/mkdir", "--parents", "--mode=0755", unit.CertificatesDir)
	s.run("systemctl", "daemon-reload")
	s.run("systemctl", "enable", onworker.ContainerdUnit, unit.Name, onworker.KubeletUnit)
	// A package may have started a unit before it was configured.
	for _, name := range []string{onworker.ContainerdUnit, unit.Name, onworker.KubeletUnit} {
		s.run("systemctl", "restart", name)
	}
	if in.Spec.Software.Mode == bootstrapv1.SoftwareDescribed {
		s.run(software.Program, "check")
	}
	s.commands("post-kubelet", in.Spec.PostKubeletCommands)
	s.files = append(s.files, ownFile(successFile, "0644", []byte("success\n")))
	s.run("/usr/bin/install", "-D", "--mode=0644", successFile, onworker.SentinelFile)
	if s.err != nil {
		return s.err
	}

	content := string(asset(onworker.BootstrapUnit)) + "ExecStart=" + strings.Join(s.lines, "\nExecStart=") + "\n"
	d.WriteFiles = append(append(d.WriteFiles, s.files...), ownFile(onworker.UnitDir+onworker.BootstrapUnit, "0644", []byte(content)))
	d.RunCmd = [][]string{{"systemctl", "daemon-reload"}, {"systemctl", "start", onworker.BootstrapUnit}}
	return nil
}
