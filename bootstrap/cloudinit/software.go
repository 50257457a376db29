package cloudinit

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	apiequality "k8s.io/apimachinery/pkg/api/equality"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/onworker"
)

const (
	installerDir     = onworker.StepDir + "installer/"
	installerProgram = onworker.StepDir + "fetch-installer"
)

// install adds the steps that fetch kok-software and run it. The program installs all else from its document.
func (s *steps) install(described *Software) error {
	if described == nil {
		return errors.New("spec.software: the KOKSoftware was not read")
	}
	document, err := marshalDocument(described.Document)
	if err != nil {
		return fmt.Errorf("write the software of KOKSoftware %s: %w", described.Document.Name, err)
	}
	name := described.Document.Name
	for _, said := range []struct {
		file   string
		result software.Result
	}{
		{"failed.json", software.Result{Reason: software.NoSource, Message: "the program kok-software cannot be had by spec.installers of KOKSoftware " + name +
			"; make one of its URLs reachable from the host, or name a mirror in spec.mirrors"}},
		{"none.json", software.Result{Reason: software.NoVariant, Message: "spec.installers of KOKSoftware " + name +
			" has no kok-software for the architecture of the host; make a KOKSoftware with another name that has one, or use other hosts"}},
	} {
		content, err := json.Marshal(said.result)
		if err != nil {
			return fmt.Errorf("write what a machine says without kok-software: %w", err)
		}
		s.files = append(s.files, ownFile(installerDir+said.file, "0644", content))
	}
	s.files = append(s.files,
		ownFile(fetchProgram, "0755", asset("fetch.sh")),
		ownFile(installerProgram, "0755", asset("fetch-installer.sh")),
		ownFile(software.DocumentFile, "0600", document))
	for _, installer := range described.Installers {
		if err := s.installer(installer, described.Document.Mirrors); err != nil {
			return fmt.Errorf("KOKSoftware %s: installer for %s: %w", described.Document.Name, installer.Architecture, err)
		}
	}
	s.run("/bin/sh", installerProgram, fetchProgram, installerDir, software.Program, software.ResultFile)
	s.run(software.Program, "install")
	return nil
}

// marshalDocument refuses texts that JSON would change, such as those that are not UTF-8.
func marshalDocument(document software.Document) ([]byte, error) {
	data, err := json.MarshalIndent(document, "", "  ")
	if err != nil {
		return nil, err
	}
	var read software.Document
	if err := json.Unmarshal(data, &read); err != nil {
		return nil, err
	}
	if !apiequality.Semantic.DeepEqual(read, document) {
		return nil, errors.New("a text in it is not UTF-8")
	}
	return data, nil
}

// installer is the file with the URLs and the SHA-256 of the program for one architecture.
func (s *steps) installer(installer bootstrapv1.SoftwareInstaller, mirrors []software.Mirror) error {
	if !sha256s.MatchString(installer.SHA256) {
		return errors.New("sha256 must be 64 hexadecimal digits in lower case")
	}
	var lines strings.Builder
	for i, address := range installer.URLs {
		for j, source := range software.Sources(mirrors, address) {
			place, err := withPassword(source)
			if err != nil {
				return err
			}
			lines.WriteString(place)
			if source.Endpoint != nil && source.Endpoint.CABundle != "" {
				file := fmt.Sprintf("%s%s-%d-%d.crt", installerDir, installer.Architecture, i, j)
				s.files = append(s.files, ownFile(file, "0644", []byte(source.Endpoint.CABundle)))
				lines.WriteString(" " + file)
			}
			lines.WriteString("\n")
		}
	}
	prefix := installerDir + string(installer.Architecture)
	s.files = append(s.files,
		ownFile(prefix+".sha256", "0644", []byte(installer.SHA256+"\n")),
		ownFile(prefix+".urls", "0600", []byte(lines.String())))
	return nil
}

// withPassword is the URL of a source with the user and the password of its endpoint.
func withPassword(source software.Source) (string, error) {
	if err := CheckURL(source.URL); err != nil {
		return "", fmt.Errorf("%q: %w", source.URL, err)
	}
	if source.Endpoint == nil || source.Endpoint.Username == "" {
		return source.URL, nil
	}
	place, err := url.Parse(source.URL)
	if err != nil {
		return "", fmt.Errorf("read a URL of a mirror: %w", err)
	}
	place.User = url.UserPassword(source.Endpoint.Username, source.Endpoint.Password)
	return place.String(), nil
}
