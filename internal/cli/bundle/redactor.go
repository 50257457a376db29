package bundle

import (
	"encoding/base64"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/redact"
)

const (
	// minSecret is the least length of a value that is taken out of texts: short ones, such as "true", are in every text.
	minSecret = 8
	// minPart is the least length of a part of a longer value, such as a line of a key or a token in a kubeconfig.
	minPart = 20
	// maxParts bounds the parts of one value that are looked for, maxLearned those of all values. Values of one line are always looked for.
	maxParts   = 5000
	maxLearned = 100000
)

// redactor takes secrets out of objects and texts. It recognises them by their field, by their form, and by the values of
// Secrets.
type redactor struct {
	values   map[string]bool
	replacer *strings.Replacer
	// parts is how many parts of values were learned. unknown is true when there are others: then nobody knows what is a secret in a text.
	parts   int
	unknown bool
}

func newRedactor() *redactor { return &redactor{values: map[string]bool{}} }

// part matches the characters of keys and tokens.
var part = regexp.MustCompile(fmt.Sprintf(`[A-Za-z0-9+/_=-]{%d,}`, minPart))

// learn notes the values of a Secret, whole and in parts, as they are and in base64.
func (r *redactor) learn(secret *corev1.Secret) {
	for key, value := range secret.Data {
		text := strings.TrimSpace(string(value))
		if isPlain(key) || len(text) < minSecret {
			continue
		}
		r.values[base64.StdEncoding.EncodeToString(value)] = true
		if !strings.ContainsAny(text, "\n\r") {
			r.values[text] = true
			continue
		}
		r.learnParts(text)
	}
}

// learnParts notes the parts of a value that may be secrets.
func (r *redactor) learnParts(text string) {
	most := min(maxParts, maxLearned-r.parts)
	found := part.FindAllString(text, most+1)
	if len(found) > most {
		found, r.unknown = found[:most], true
	}
	r.parts += len(found)
	for _, line := range found {
		if mixed(line) {
			r.values[line] = true
		}
	}
}

// mixed reports whether a part of a text looks like a secret rather than a name or a path. Names and paths have no capital
// letters, and separators between their words.
func mixed(text string) bool {
	if !strings.ContainsAny(text, "0123456789") || strings.ToUpper(text) == text {
		return false
	}
	return strings.ToLower(text) != text || !strings.ContainsAny(text, "-_/")
}

// learned is called once all Secrets are read.
func (r *redactor) learned() {
	all := make([]string, 0, len(r.values))
	for value := range r.values {
		all = append(all, value)
	}
	// The longest match counts.
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
	pairs := make([]string, 0, 2*len(all))
	for _, value := range all {
		pairs = append(pairs, value, redact.Mark)
	}
	r.replacer = strings.NewReplacer(pairs...)
}

var (
	// digest is a digest of an image or a container, which is as long as a key but no secret.
	digest = regexp.MustCompile(`\b(?:sha256:|containerd://|cri-o://)[0-9a-f]{64}\b`)
	// keyEnd is the end of a private key whose beginning was cut off.
	keyEnd = regexp.MustCompile(`(?:[A-Za-z0-9+/=]+\s+)*-----END [A-Z ]*PRIVATE KEY-----`)
	// keyData is a key in a kubeconfig, however short.
	keyData = regexp.MustCompile(`(?i)((?:client-key-data|client-certificate-data|clientKeyData|privateKey|ssh-privatekey)["']?\s*[:=]\s*["']?)[^\s"',]+`)
)

// text is a text without its secrets.
func (r *redactor) text(text string) string {
	if r.replacer != nil {
		text = r.replacer.Replace(text)
	}
	text = keyData.ReplaceAllString(text, "${1}"+redact.Mark)
	var b strings.Builder
	last := 0
	for _, at := range digest.FindAllStringIndex(text, -1) {
		b.WriteString(r.plain(text[last:at[0]]))
		b.WriteString(text[at[0]:at[1]])
		last = at[1]
	}
	b.WriteString(r.plain(text[last:]))
	return b.String()
}

func (*redactor) plain(text string) string {
	return keyEnd.ReplaceAllString(redact.Text(text), redact.Mark)
}

// hidden are fields that may hold a secret of any form: files and users of bootstrap data, tokens, keys. Case, '-' and '_' in
// their names do not matter.
var hidden = []string{
	"content", "contents", "password", "passwd", "hashedpasswd", "token", "tokensecret", "userdata", "privatekey", "sshprivatekey",
	"clientkeydata", "clientcertificatedata", "kubeconfig", "secretkey", "accesskey", "apikey", "secretaccesskey", "passphrase",
}

// commands are fields with commands of bootstrap data, whose arguments may be anything.
var commands = []string{"prekubeletcommands", "postkubeletcommands", "prekubeadmcommands", "postkubeadmcommands", "bootcommands"}

// telling matches names of variables with secrets.
var telling = regexp.MustCompile(`(?i)passw|secret|token|credential|api_?key|private_?key|authorization`)

const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// object takes secrets out of an object, and also its managed fields, which are long and explain no failure.
func (r *redactor) object(object *unstructured.Unstructured) {
	object.SetManagedFields(nil)
	if annotations := object.GetAnnotations(); annotations[lastApplied] != "" {
		delete(annotations, lastApplied)
		object.SetAnnotations(annotations)
	}
	if object.GetKind() == "Secret" {
		delete(object.Object, "data")
		delete(object.Object, "stringData")
	}
	object.Object, _ = r.value(object.Object).(map[string]any)
}

func (r *redactor) value(value any) any {
	switch v := value.(type) {
	case string:
		return r.text(v)
	case []any:
		for i := range v {
			v[i] = r.value(v[i])
		}
	case map[string]any:
		variable, _ := v["name"].(string)
		for key, each := range v {
			name := strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(key))
			switch {
			case slices.Contains(hidden, name), key == "value" && telling.MatchString(variable):
				v[key] = r.hide(each)
			case slices.Contains(commands, name):
				v[key] = r.hide(each)
			default:
				v[key] = r.value(each)
			}
		}
	}
	return value
}

// hide replaces each string by its length.
func (r *redactor) hide(value any) any {
	switch v := value.(type) {
	case string:
		return fmt.Sprintf("%s (%d bytes)", redact.Mark, len(v))
	case []any:
		for i := range v {
			v[i] = r.hide(v[i])
		}
		return v
	default:
		return r.value(v)
	}
}
