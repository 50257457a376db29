package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/licenseclassifier/v2/assets"
)

func TestLicences(t *testing.T) {
	texts, err := assets.DefaultClassifier()
	if err != nil {
		t.Fatal(err)
	}
	text := func(file string) string {
		content, err := assets.ReadLicenseFile("License/" + file)
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	mit, apache, gpl, agpl := text("MIT/pristine.txt"), text("Apache-2.0/pristine.txt"), text("GPL-3.0/license.txt"), text("AGPL-3.0/license.txt")
	for name, test := range map[string]struct {
		files map[string]string
		// problem is empty for a module that may be used.
		problem string
	}{
		"one that is allowed":                     {map[string]string{"LICENSE": apache}, ""},
		"one that is allowed, in British English": {map[string]string{"LICENCE.md": mit}, ""},
		"two that are allowed":                    {map[string]string{"LICENSE-APACHE": apache, "LICENSE-MIT": mit}, ""},
		"a copyright before it":                   {map[string]string{"COPYING": "Copyright 2026 The Authors\n\n" + mit}, ""},
		"that of documents does not count":        {map[string]string{"LICENSE": mit, "LICENSE.docs": gpl}, ""},
		"one that is not allowed":                 {map[string]string{"LICENSE": gpl}, "not allowed: GPL-3.0"},
		"one that is not allowed beside another":  {map[string]string{"LICENSE": mit, "COPYING": agpl}, "not allowed: AGPL-3.0"},
		"both in one file":                        {map[string]string{"LICENSE": mit + "\n\n" + gpl}, "not allowed: GPL-3.0"},
		"a text that nobody knows":                {map[string]string{"LICENSE": "You may do good with it, and nothing evil."}, "not allowed: LICENSE?"},
		"none":                                    {map[string]string{"README.md": mit}, "no file with a licence"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			for file, content := range test.files {
				if err := os.WriteFile(filepath.Join(folder, file), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			found, err := licencesOf(texts, folder)
			if err == nil {
				err = judge(found)
			}
			if (err == nil) != (test.problem == "") || err != nil && !strings.Contains(err.Error(), test.problem) {
				t.Errorf("found %q: %v", found, err)
			}
		})
	}
}
