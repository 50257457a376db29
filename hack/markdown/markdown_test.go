package markdown

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestADocumentIsFoundFromAnyFolder(t *testing.T) {
	page, err := Read("README.md")
	if err != nil || len(page.Headings) == 0 {
		t.Errorf("%v, %v", page, err)
	}
	t.Chdir(t.TempDir())
	if _, err := Read("README.md"); err == nil {
		t.Error("it is found outside of the repository")
	}
}

func TestParse(t *testing.T) {
	page := Parse("# All, and `more`\n\nSee [this](other.md#there) and [`that`](https://example.com), not `[a](b)`.\n\n" +
		"| name | what |\n|---|---|\n| `a`, `b` | first |\n| `c` | |\n\n" +
		"```sh\n# no heading\nls | wc\n```\n\n- **One:** `a`,\n  and b\n  - below\n- two\n\n## Twice\n\n| other |\n|---|\n| x |\n## Twice\n")
	want := &Page{
		Headings: []string{"All, and `more`", "Twice", "Twice"},
		Tables: []Table{
			{Under: "All, and `more`", Rows: []map[string]string{{"name": "`a`, `b`", "what": "first"}, {"name": "`c`", "what": ""}}},
			{Under: "Twice", Rows: []map[string]string{{"other": "x"}}},
		},
		Links:  []string{"other.md#there", "https://example.com"},
		Blocks: []Block{{Under: "All, and `more`", Language: "sh", Code: "# no heading\nls | wc\n"}},
		Items: []Item{
			{Under: "All, and `more`", Text: "**One:** `a`, and b"}, {Under: "All, and `more`", Text: "below"}, {Under: "All, and `more`", Text: "two"},
		},
	}
	if diff := cmp.Diff(want, page); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"all-and-more", "twice", "twice-1"}, page.Anchors()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]map[string]string{{"other": "x"}}, page.Rows("other")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"a", "b"}, Code("`a`, and `b`")); diff != "" {
		t.Error(diff)
	}
}
