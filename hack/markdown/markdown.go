// Package markdown reads from the project's documents what is checked: headings, tables, links and blocks of code.
// It knows the part of GitHub's Markdown that the documents use.
package markdown

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"
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
	// Language is the word after the fence, such as "sh"; empty if there is none.
	Language, Code string
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`^#+ (.+)$`)
	fence   = regexp.MustCompile("^\\s*```(\\w*)")
	rule    = regexp.MustCompile(`^\|[-:| ]+\|$`)
)

// Read reads a document of the repository that the program or test runs in, in whichever folder of it.
func Read(path string) (*Page, error) {
	folder, err := os.Getwd()
	for err == nil {
		if _, err := os.Stat(filepath.Join(folder, "go.mod")); err == nil {
			text, err := os.ReadFile(filepath.Join(folder, path))
			return Parse(string(text)), err
		}
		above := filepath.Dir(folder)
		if above == folder {
			return nil, fmt.Errorf("find %s: no folder above this one has a go.mod", path)
		}
		folder = above
	}
	return nil, err
}

// Parse reads a page.
func Parse(text string) *Page {
	page := &Page{}
	var columns []string
	inBlock := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if found := fence.FindStringSubmatch(line); found != nil {
			if inBlock = !inBlock; inBlock {
				page.Blocks = append(page.Blocks, Block{Language: found[1]})
			}
			continue
		}
		if inBlock {
			page.Blocks[len(page.Blocks)-1].Code += line + "\n"
			continue
		}
		if found := heading.FindStringSubmatch(line); found != nil {
			page.Headings = append(page.Headings, found[1])
		}
		for _, found := range link.FindAllStringSubmatch(code.ReplaceAllString(line, ""), -1) {
			page.Links = append(page.Links, found[1])
		}
		columns = page.tableLine(line, columns)
	}
	return page
}

// tableLine reads a line that may be one of a table, and returns the columns of the table that goes on.
func (p *Page) tableLine(line string, columns []string) []string {
	switch {
	case !strings.HasPrefix(line, "|"):
		return nil
	case rule.MatchString(line):
		return columns
	case columns == nil:
		table := Table{}
		if len(p.Headings) > 0 {
			table.Under = p.Headings[len(p.Headings)-1]
		}
		p.Tables = append(p.Tables, table)
		return cells(line)
	}
	row, table := map[string]string{}, &p.Tables[len(p.Tables)-1]
	for i, cell := range cells(line) {
		if i < len(columns) {
			row[columns[i]] = cell
		}
	}
	table.Rows = append(table.Rows, row)
	return columns
}

func cells(line string) []string {
	all := strings.Split(strings.TrimSuffix(strings.TrimPrefix(line, "|"), "|"), "|")
	for i, cell := range all {
		all[i] = strings.TrimSpace(cell)
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
func Code(text string) []string {
	var all []string
	for _, found := range code.FindAllStringSubmatch(text, -1) {
		all = append(all, found[1])
	}
	return all
}

// Anchors are what GitHub lets links lead to: one for each heading.
func (p *Page) Anchors() []string {
	seen := map[string]int{}
	all := make([]string, 0, len(p.Headings))
	for _, title := range p.Headings {
		anchor := Anchor(title)
		seen[anchor]++
		if times := seen[anchor]; times > 1 {
			anchor = fmt.Sprintf("%s-%d", anchor, times-1)
		}
		all = append(all, anchor)
	}
	return all
}

// Anchor is that of a heading, if no heading before has the same.
func Anchor(title string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			return unicode.ToLower(r)
		case r == ' ':
			return '-'
		}
		return -1
	}, strings.TrimSpace(title))
}
