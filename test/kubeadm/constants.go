// Package kubeadm reads what kubeadm's source says, for tests that hold ours to it.
package kubeadm

import (
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// Constants are the tags of images that a version of kubeadm names.
type Constants struct {
	// Etcd has the tag for each minor of Kubernetes that this kubeadm names by its number.
	Etcd map[int]string
	// DefaultEtcd is the tag for the version itself.
	DefaultEtcd, CoreDNS, Pause string
}

// Read reads them from the source of a version, which it downloads into a folder if it is not in Go's module cache.
func Read(ctx context.Context, folder, version string) (Constants, error) {
	download := exec.CommandContext(ctx, "go", "mod", "download", "-json", "k8s.io/kubernetes@"+version)
	download.Dir, download.Stderr = folder, os.Stderr
	output, err := download.Output()
	if err != nil {
		return Constants{}, fmt.Errorf("download the source of Kubernetes %s: %w", version, err)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(output, &module); err != nil {
		return Constants{}, err
	}
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(module.Dir, "cmd/kubeadm/app/constants/constants.go"), nil, 0)
	if err != nil {
		return Constants{}, err
	}
	return constantsOf(file)
}

func constantsOf(file *ast.File) (Constants, error) {
	found := Constants{Etcd: map[int]string{}}
	var err error
	ast.Inspect(file, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok || len(spec.Names) != 1 || len(spec.Values) != 1 || err != nil {
			return err == nil
		}
		switch spec.Names[0].Name {
		case "DefaultEtcdVersion":
			found.DefaultEtcd, err = text(spec.Values[0])
		case "CoreDNSVersion":
			found.CoreDNS, err = text(spec.Values[0])
		case "PauseVersion":
			found.Pause, err = text(spec.Values[0])
		case "SupportedEtcdVersion":
			err = found.readEtcd(spec.Values[0])
		}
		return true
	})
	if err == nil && (found.DefaultEtcd == "" || found.CoreDNS == "" || found.Pause == "") {
		err = fmt.Errorf("some constants are not there: %+v", found)
	}
	return found, err
}

func (c Constants) readEtcd(expression ast.Expr) error {
	literal, ok := expression.(*ast.CompositeLit)
	if !ok {
		return fmt.Errorf("%T is no map", expression)
	}
	for _, element := range literal.Elts {
		pair, ok := element.(*ast.KeyValueExpr)
		if !ok {
			return fmt.Errorf("%T is no pair", element)
		}
		key, ok := pair.Key.(*ast.BasicLit)
		if !ok {
			continue // kubeadm v1.35 computes the minors
		}
		minor, err := strconv.Atoi(key.Value)
		if err != nil {
			return err
		}
		if c.Etcd[minor], err = text(pair.Value); err != nil {
			return err
		}
	}
	return nil
}

// text is the value of a literal.
func text(expression ast.Expr) (string, error) {
	literal, ok := expression.(*ast.BasicLit)
	if !ok {
		return "", fmt.Errorf("%T is no literal", expression)
	}
	return strconv.Unquote(literal.Value)
}
