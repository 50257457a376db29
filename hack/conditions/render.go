package main

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/kube-on-kube/cluster-api-provider-kok/hack/markdown"
)

const head = `# Conditions

<!-- Made of the comments of conditions and reasons in api/ by make generate. -->

Every condition of every kind, and every reason that it can have. Read the message first: it says what is wrong and where.
[Troubleshooting](../troubleshooting.md) goes by messages. With Cluster API's own conditions,
` + "`clusterctl describe cluster <name> --show-conditions all`" + ` shows them all.

Every kind also has ` + "`Paused`" + `: true, with the reason ` + "`Paused`" + `, while ` + "`spec.paused`" + ` of the Cluster or the annotation
` + "`cluster.x-k8s.io/paused`" + ` of the object keeps the controller from it, else false with ` + "`NotPaused`" + `.
`

// render writes the page. A condition of the first kind, the control plane, links to the part of the
// troubleshooting page with its name.
func render(kinds []kind, troubleshooting *markdown.Page) []byte {
	page := bytes.NewBufferString(head)
	for i, k := range kinds {
		fmt.Fprintf(page, "\n## %s\n", strings.Join(k.names, ", "))
		for _, paragraph := range k.about {
			fmt.Fprintf(page, "\n%s\n", marked(paragraph))
		}
		for _, c := range k.conditions {
			fmt.Fprintf(page, "\n### %s: %s\n\nIt %s\n", k.names[0], c.value, marked(c.text))
			if title, ok := section(troubleshooting, c.value); ok && i == 0 {
				fmt.Fprintf(page, "More: [troubleshooting](../troubleshooting.md#%s).\n", markdown.Anchor(title))
			}
			writeReasons(page, c.reasons)
		}
	}
	return page.Bytes()
}

func writeReasons(page *bytes.Buffer, reasons []reason) {
	if len(reasons) == 0 {
		return
	}
	page.WriteString("\n| reason | what it means | what to do |\n|---|---|---|\n")
	for _, r := range reasons {
		fmt.Fprintf(page, "| `%s` | %s | %s |\n", r.value, cell(r.meaning), cell(r.way))
	}
}

func cell(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	if size == 0 {
		return ""
	}
	return marked(strings.TrimSuffix(string(unicode.ToUpper(first))+text[size:], "."))
}

// What is code in a comment: what is in quotes, fields, and files of a host.
var (
	document = regexp.MustCompile(`docs/([\w-]+\.md)(#[\w-]+)?`)
	code     = regexp.MustCompile(`"[^"]+"|\bspec(?:\.\w+)+|(?:^|\s)/[\w/*.-]*\w`)
)

// marked is the text of a comment as Markdown.
func marked(text string) string {
	text = code.ReplaceAllStringFunc(text, func(found string) string {
		bare := strings.TrimLeft(found, " ")
		return found[:len(found)-len(bare)] + "`" + strings.Trim(bare, `"`) + "`"
	})
	return document.ReplaceAllString(text, "[$1](../$1$2)")
}

// section is the first heading of a page that has the word.
func section(page *markdown.Page, word string) (heading string, ok bool) {
	isWord := regexp.MustCompile(`\b` + regexp.QuoteMeta(word) + `\b`)
	at := slices.IndexFunc(page.Headings, isWord.MatchString)
	if at < 0 {
		return "", false
	}
	return page.Headings[at], true
}
