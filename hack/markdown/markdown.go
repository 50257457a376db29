// Package markdown reads from the project's documents what is checked: headings, tables, links and blocks of code.
package markdown

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// Page is what a document holds.
type Page struct {
	// Headings are the titles, without marks.
	Headings []string
	Tables   []Table
	// Links are the targets of all links.
	Links []string
	// Blocks are the blocks of code.
	Blocks []Block
	// Items are those of lists.
	Items []Item
}

// Item is one item of a list.
type Item struct {
	// Under is the last heading before it.
	Under string
	// Text is in one line, with its marks, and without lists below it.
	Text string
}

// Table is one table.
type Table struct {
	// Under is the last heading before it.
	Under string
	// Rows have the text of their cells by the title of the column.
	Rows []map[string]string
}

// Block is one block of code.
type Block struct {
	// Under is the last heading before it.
	Under string
	// Language is the word after the fence, such as "sh"; empty if there is none.
	Language, Code string
}

// Read reads a document of the repository that the program or test runs in, in whichever folder of it.
func Read(path string) (*Page, error) {
	folder, err := os.Getwd()
	for err == nil {
		if _, err := os.Stat(filepath.Join(folder, "go.mod")); err == nil {
			source, err := os.ReadFile(filepath.Join(folder, path))
			return Parse(string(source)), err
		}
		above := filepath.Dir(folder)
		if above == folder {
			return nil, fmt.Errorf("find %s: no folder above this one has a go.mod", path)
		}
		folder = above
	}
	return nil, err
}

var gitHub = goldmark.New(goldmark.WithExtensions(extension.Table))

// Parse reads a page.
func Parse(document string) *Page {
	r := reader{source: []byte(document), page: &Page{}}
	// The function returns no error, so walking does not either.
	_ = ast.Walk(gitHub.Parser().Parse(text.NewReader(r.source)), r.visit)
	return r.page
}

// reader gathers what a page holds.
type reader struct {
	source []byte
	page   *Page
}

func (r reader) visit(node ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	switch n := node.(type) {
	case *ast.Heading:
		r.page.Headings = append(r.page.Headings, r.written(n))
	case *ast.Link:
		r.page.Links = append(r.page.Links, string(n.Destination))
	case *ast.FencedCodeBlock:
		r.page.Blocks = append(r.page.Blocks, Block{Under: r.heading(), Language: string(n.Language(r.source)), Code: r.written(n)})
	case *ast.ListItem:
		r.page.Items = append(r.page.Items, Item{Under: r.heading(), Text: r.text(n)})
	case *extast.Table:
		r.page.Tables = append(r.page.Tables, r.table(n))
	}
	return ast.WalkContinue, nil
}

// written is what a node has as it stands in the document.
func (r reader) written(node ast.Node) string { return string(node.Lines().Value(r.source)) }

// text is that of an item's paragraphs, in one line.
func (r reader) text(item *ast.ListItem) string {
	var words []string
	for part := item.FirstChild(); part != nil; part = part.NextSibling() {
		if part.Kind() == ast.KindTextBlock || part.Kind() == ast.KindParagraph {
			words = append(words, strings.Fields(r.written(part))...)
		}
	}
	return strings.Join(words, " ")
}

// heading is the last one so far. It is empty before the first.
func (r reader) heading() string {
	if len(r.page.Headings) == 0 {
		return ""
	}
	return r.page.Headings[len(r.page.Headings)-1]
}

func (r reader) table(node *extast.Table) Table {
	table := Table{Under: r.heading()}
	columns := r.cells(node.FirstChild())
	for line := node.FirstChild().NextSibling(); line != nil; line = line.NextSibling() {
		row := map[string]string{}
		for i, cell := range r.cells(line) {
			row[columns[i]] = cell
		}
		table.Rows = append(table.Rows, row)
	}
	return table
}

func (r reader) cells(line ast.Node) []string {
	var all []string
	for cell := line.FirstChild(); cell != nil; cell = cell.NextSibling() {
		all = append(all, r.written(cell))
	}
	return all
}

// Rows are the rows of all tables that have all of the columns.
func (p *Page) Rows(columns ...string) []map[string]string {
	var rows []map[string]string
	for _, table := range p.Tables {
		for _, row := range table.Rows {
			complete := true
			for _, column := range columns {
				_, has := row[column]
				complete = complete && has
			}
			if complete {
				rows = append(rows, row)
			}
		}
	}
	return rows
}

var code = regexp.MustCompile("`([^`]+)`")

// Code is what is marked as code in a text.
func Code(marked string) []string {
	var all []string
	for _, found := range code.FindAllStringSubmatch(marked, -1) {
		all = append(all, found[1])
	}
	return all
}

// Anchors are what GitHub lets links lead to: one for each heading.
func (p *Page) Anchors() []string {
	ids := parser.NewContext().IDs()
	all := make([]string, 0, len(p.Headings))
	for _, title := range p.Headings {
		all = append(all, string(ids.Generate([]byte(title), ast.KindHeading)))
	}
	return all
}

// Anchor is that of a heading, if no heading before has the same.
func Anchor(title string) string { return (&Page{Headings: []string{title}}).Anchors()[0] }
