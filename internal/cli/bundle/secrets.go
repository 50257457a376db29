package bundle

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// secretInfo is what a bundle tells of a Secret.
type secretInfo struct {
	Namespace string            `json:"namespace"`
	Name      string            `json:"name"`
	Type      corev1.SecretType `json:"type,omitempty"`
	Created   string            `json:"created"`
	Labels    map[string]string `json:"labels,omitempty"`
	Owners    []string          `json:"owners,omitempty"`
	Data      []valueInfo       `json:"data,omitempty"`
}

// valueInfo is what a bundle tells of a value.
type valueInfo struct {
	Key string `json:"key"`
	// Bytes is the value's length.
	Bytes int `json:"bytes"`
}

// collectSecrets lists Secrets without their values, and has the redactor learn these.
func (c *collector) collectSecrets(ctx context.Context, s *scope) {
	var found []secretInfo
	for _, namespace := range s.namespaces() {
		page := ""
		for {
			list := &corev1.SecretList{}
			if err := c.client.List(ctx, list, client.InNamespace(namespace), client.Limit(pageSize), client.Continue(page)); err != nil {
				c.note("secrets in namespace "+namespace, err)
				break
			}
			for i := range list.Items {
				// The value of another cluster's Secret may be in a log of this one.
				c.redactor.learn(&list.Items[i])
				if s.has(&list.Items[i]) {
					found = append(found, infoOf(&list.Items[i]))
				}
			}
			if page = list.Continue; page == "" {
				break
			}
		}
	}
	c.redactor.learned()
	if len(found) == 0 {
		return
	}
	data, err := yaml.Marshal(found)
	c.note("write the list of Secrets", err)
	c.text("secrets.yaml", string(data))
}

func infoOf(secret *corev1.Secret) secretInfo {
	info := secretInfo{
		Namespace: secret.Namespace, Name: secret.Name, Type: secret.Type, Labels: secret.Labels,
		Created: secret.CreationTimestamp.UTC().Format("2006-01-02T15:04:05Z"),
	}
	for _, owner := range secret.OwnerReferences {
		info.Owners = append(info.Owners, fmt.Sprintf("%s %s", owner.Kind, owner.Name))
	}
	for _, key := range slices.Sorted(maps.Keys(secret.Data)) {
		info.Data = append(info.Data, valueInfo{Key: key, Bytes: len(secret.Data[key])})
	}
	return info
}

// plainKeys are keys of Secrets whose values are no secrets: taking these out would make texts unreadable.
var plainKeys = []string{"namespace", "username", "user", "format", "ca.crt", "tls.crt", "ssh-certificate", "server", "host", "endpoint", "url", "name", "type"}

func isPlain(key string) bool { return slices.Contains(plainKeys, strings.ToLower(key)) }
