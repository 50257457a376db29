// Package validation reads and checks the software document of a machine. The webhook refuses most mistakes before. The
// program runs as root, so it checks again.
package validation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/version"
)

// maxSize bounds a document. etcd bounds a KOKSoftware at 1.5 MiB, so its document is shorter.
const maxSize = 8 << 20

// Read reads and checks the document in a file.
func Read(path string) (software.Document, error) {
	document, err := read(path)
	if err != nil {
		return document, software.Problemf(software.NotInstalled, "", "read %s, which the bootstrap data bring: %w", path, err)
	}
	return document, nil
}

func read(path string) (software.Document, error) {
	file, err := os.Open(path)
	if err != nil {
		return software.Document{}, err
	}
	defer func() { _ = file.Close() }()
	data, err := io.ReadAll(io.LimitReader(file, maxSize+1))
	if err != nil {
		return software.Document{}, err
	}
	if len(data) > maxSize {
		return software.Document{}, fmt.Errorf("it is longer than %d bytes", maxSize)
	}
	return Parse(data)
}

// Parse reads and checks a document.
func Parse(data []byte) (software.Document, error) {
	if err := checkFormat(data); err != nil {
		return software.Document{}, err
	}
	var document software.Document
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&document); err != nil {
		return document, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return document, errors.New("there is something after the document")
	}
	return document, Validate(document)
}

// checkFormat refuses a document of a newer format, before its unknown fields are refused.
func checkFormat(data []byte) error {
	var document struct {
		FormatVersion int `json:"formatVersion"`
	}
	if err := json.NewDecoder(bytes.NewReader(data)).Decode(&document); err != nil {
		return err
	}
	if document.FormatVersion >= 0 && document.FormatVersion <= software.Format {
		return nil
	}
	return fmt.Errorf("this kok-software %s reads documents up to format %d, and this one has format %d; have spec.installers of the KOKSoftware name a newer "+
		"kok-software, as kok software add --release makes it, under a new name", version.Get().GitVersion, software.Format, document.FormatVersion)
}
