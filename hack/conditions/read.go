package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// apis are the folders whose packages name conditions, in the order of the page.
var apis = []string{"api/controlplane/v1alpha1/conditions", "api/bootstrap/v1alpha1", "api/infrastructure/v1alpha1"}

// kind is one kind of object, or several that have their conditions in common.
type kind struct {
	// names are those of the kinds.
	names []string
	// about is what is said of all conditions.
	about      []string
	conditions []condition
}

type condition struct {
	// value is what objects have, text the comment without the constant's name.
	value, text string
	reasons     []reason
}

type reason struct {
	value string
	// meaning is what it stands for; way what a person does, empty for nothing.
	meaning, way string
}

// source is a package whose comments are read.
type source struct {
	*packages.Package
}

// block is the comment of a group of constants.
var block = regexp.MustCompile(`^(Conditions|Reasons of the conditions) of ([^.]*?)(?:, besides clusterv1\.PausedCondition)?\.\s*(.*)$`)

var kindName = regexp.MustCompile(`\b(?:KOK|IDC)[A-Z]\w+`)

// read reads the kinds of one package.
func read(root, folder string) ([]kind, error) {
	loaded, err := load(root, folder)
	if err != nil {
		return nil, err
	}
	s := source{loaded[0]}
	var kinds []kind
	for _, file := range s.Syntax {
		for _, declaration := range file.Decls {
			group, ok := declaration.(*ast.GenDecl)
			if !ok || group.Tok != token.CONST || group.Doc == nil {
				continue
			}
			found := block.FindStringSubmatch(line(group.Doc.Text()))
			if found == nil {
				continue
			}
			names := kindName.FindAllString(found[2], -1)
			if found[1] == "Conditions" {
				conditions, err := s.conditions(group)
				if err != nil {
					return nil, err
				}
				kinds = append(kinds, kind{names: names, about: about(s, found[3]), conditions: conditions})
				continue
			}
			at := slices.IndexFunc(kinds, func(k kind) bool { return slices.Equal(k.names, names) })
			if at < 0 {
				return nil, fmt.Errorf("the reasons of %v have no conditions before them", names)
			}
			kinds[at].about = append(kinds[at].about, about(s, found[3])...)
			if err := s.addReasons(&kinds[at], group); err != nil {
				return nil, err
			}
		}
	}
	if len(kinds) == 0 {
		return nil, errors.New("no group of constants has a comment of the form \"Conditions of a ...\"")
	}
	return kinds, nil
}

func about(s source, text string) []string {
	if text == "" {
		return nil
	}
	return []string{s.words(text)}
}

// load loads packages of the repository with their syntax and types.
func load(root string, folders ...string) ([]*packages.Package, error) {
	patterns := make([]string, 0, len(folders))
	for _, folder := range folders {
		patterns = append(patterns, "./"+folder)
	}
	loaded, err := packages.Load(&packages.Config{Dir: root, Mode: packages.LoadSyntax}, patterns...)
	if err != nil {
		return nil, err
	}
	for _, p := range loaded {
		for _, problem := range p.Errors {
			return nil, problem
		}
	}
	return loaded, nil
}

// line is a comment in one line.
func line(comment string) string { return strings.Join(strings.Fields(comment), " ") }

// value is the string that a constant of the package stands for.
func (s source) value(name string) (string, bool) {
	found, ok := s.Types.Scope().Lookup(name).(*types.Const)
	if !ok || found.Val().Kind() != constant.String {
		return "", false
	}
	return constant.StringVal(found.Val()), true
}

var named = regexp.MustCompile(`\b[A-Z]\w+(?:Condition|Reason)\b`)

// words has the values of constants in place of their names.
func (s source) words(text string) string {
	return named.ReplaceAllStringFunc(text, func(name string) string {
		if value, ok := s.value(name); ok {
			return "`" + value + "`"
		}
		return name
	})
}

// constants calls found with each constant of a group and the paragraphs of its comment.
func (s source) constants(group *ast.GenDecl, found func(name, value string, paragraphs []string) error) error {
	for _, spec := range group.Specs {
		declared := spec.(*ast.ValueSpec)
		name := declared.Names[0].Name
		value, ok := s.value(name)
		if !ok || len(declared.Names) != 1 || declared.Doc == nil {
			return fmt.Errorf("%s must be one string with a comment of its own", name)
		}
		var paragraphs []string
		for _, paragraph := range strings.Split(strings.TrimSpace(declared.Doc.Text()), "\n\n") {
			paragraphs = append(paragraphs, line(paragraph))
		}
		if err := found(name, value, paragraphs); err != nil {
			return err
		}
	}
	return nil
}

func (s source) conditions(group *ast.GenDecl) ([]condition, error) {
	var all []condition
	return all, s.constants(group, func(name, value string, paragraphs []string) error {
		text, ok := strings.CutPrefix(paragraphs[0], name+" ")
		if !ok || len(paragraphs) != 1 {
			return fmt.Errorf("the comment of %s must be one paragraph that begins with its name", name)
		}
		all = append(all, condition{value: value, text: s.words(text)})
		return nil
	})
}

// form is the comment of a reason.
var form = regexp.MustCompile(`^(\w+) of ((?:\w+Condition(?:, | and )?)+): (.+)$`)

// addReasons gives the reasons of a group to the conditions that they are of.
func (s source) addReasons(k *kind, group *ast.GenDecl) error {
	return s.constants(group, func(name, value string, paragraphs []string) error {
		found := form.FindStringSubmatch(paragraphs[0])
		if found == nil || found[1] != name || len(paragraphs) > 2 {
			return fmt.Errorf("the comment of %s must be \"%s of ACondition and BCondition: what it means.\", and may have a second paragraph with what a person does", name, name)
		}
		r := reason{value: value, meaning: s.words(found[3])}
		if len(paragraphs) == 2 {
			r.way = s.words(paragraphs[1])
		}
		for _, of := range named.FindAllString(found[2], -1) {
			value, _ := s.value(of)
			at := slices.IndexFunc(k.conditions, func(c condition) bool { return c.value == value })
			if at < 0 {
				return fmt.Errorf("the comment of %s: %v have no %s", name, k.names, of)
			}
			k.conditions[at].reasons = append(k.conditions[at].reasons, r)
		}
		return nil
	})
}
