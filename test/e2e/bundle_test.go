//go:build e2e

package e2e

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// filesOf are the files of a support bundle, by their paths in its folder.
func filesOf(bundle string) map[string]string {
	GinkgoHelper()
	file, err := os.Open(bundle)
	Expect(err).NotTo(HaveOccurred())
	defer file.Close() //nolint:errcheck // only read
	compressed, err := gzip.NewReader(file)
	Expect(err).NotTo(HaveOccurred())
	files, archive := map[string]string{}, tar.NewReader(compressed)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		Expect(err).NotTo(HaveOccurred())
		content, err := io.ReadAll(archive)
		Expect(err).NotTo(HaveOccurred())
		_, path, _ := strings.Cut(header.Name, "/")
		files[path] = string(content)
	}
}

// leastSecret is the least length of a value that is looked for: shorter ones, such as true, are words.
const leastSecret = 16

var (
	privateKeys = regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----\n(.*?)\n-----END`)
	credentials = regexp.MustCompile(`(?m)(?:client-key-data|token|password): *"?([A-Za-z0-9+/=._-]{16,})`)
)

// secretTexts are the texts of a Secret's values that nobody else may have: values of one line, lines of private keys, and
// credentials in kubeconfigs, as they are and in base64.
func secretTexts(secret *corev1.Secret) (texts []string) {
	public := []string{"ca.crt", "tls.crt", "username", "user", "server", "host", "endpoint", "url", "name", "type", "namespace"}
	for key, content := range secret.Data {
		value := strings.TrimSpace(string(content))
		if slices.Contains(public, key) || len(value) < leastSecret {
			continue
		}
		texts = append(texts, base64.StdEncoding.EncodeToString(content))
		if !strings.Contains(value, "\n") {
			texts = append(texts, value)
		}
		for _, found := range privateKeys.FindAllStringSubmatch(value, -1) {
			for line := range strings.Lines(found[1]) {
				if line = strings.TrimSpace(line); len(line) >= leastSecret {
					texts = append(texts, line)
				}
			}
		}
		for _, found := range credentials.FindAllStringSubmatch(value, -1) {
			texts = append(texts, found[1])
		}
	}
	return texts
}

// expectNoSecrets expects that no file has anything of the Secrets of a namespace.
func expectNoSecrets(ctx context.Context, files map[string]string, namespace string) {
	GinkgoHelper()
	secrets := &corev1.SecretList{}
	listAll(ctx, secrets, client.InNamespace(namespace))
	Expect(secrets.Items).NotTo(BeEmpty(), "Secrets of namespace %s", namespace)
	looked := 0
	for i := range secrets.Items {
		for _, text := range secretTexts(&secrets.Items[i]) {
			looked++
			for path, content := range files {
				// The text itself is for nobody's log.
				Expect(strings.Contains(content, text)).To(BeFalse(), "%s of the bundle has something of Secret %s", path, secrets.Items[i].Name)
			}
		}
	}
	Expect(looked).To(BeNumerically(">", len(secrets.Items)), "texts that were looked for")
}
