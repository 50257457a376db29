package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Names of files of a release. cosign's documents name the public key so.
const (
	sumsFile      = "SHA256SUMS"
	signatureFile = sumsFile + ".sig"
	publicKeyFile = "cosign.pub"
)

// writeSums writes SHA256SUMS, and before it what it is verified with. The signature of the sums signs every file.
func (r release) writeSums() error {
	if r.key == nil {
		content, err := sums(r.out)
		if err != nil {
			return fmt.Errorf("write %s: %w", sumsFile, err)
		}
		return os.WriteFile(filepath.Join(r.out, sumsFile), content, 0o644)
	}
	public, err := r.key.Public()
	if err != nil {
		return fmt.Errorf("write %s: %w", publicKeyFile, err)
	}
	if err := os.WriteFile(filepath.Join(r.out, publicKeyFile), public, 0o644); err != nil {
		return err
	}
	content, err := sums(r.out)
	if err != nil {
		return fmt.Errorf("write %s: %w", sumsFile, err)
	}
	signature, err := r.key.Sign(content)
	if err != nil {
		return fmt.Errorf("write %s: %w", signatureFile, err)
	}
	return errors.Join(os.WriteFile(filepath.Join(r.out, signatureFile), []byte(signature), 0o644),
		os.WriteFile(filepath.Join(r.out, sumsFile), content, 0o644))
}

// sums is a list, which sha256sum --check reads, of every file in a folder.
func sums(folder string) ([]byte, error) {
	var lines []string
	err := filepath.WalkDir(folder, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(folder, file)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(content)
		lines = append(lines, hex.EncodeToString(sum[:])+"  "+relative+"\n")
		return nil
	})
	return []byte(strings.Join(lines, "")), err
}
