// Package manifests reads templates and examples as clusterctl and the API server would.
package manifests

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/yamlprocessor"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/scheme"
)

// Fill fills a template in as clusterctl does; a variable that has neither a value nor a default is an error.
func Fill(template []byte, variables map[string]string) (string, error) {
	filled, err := yamlprocessor.NewSimpleProcessor().Process(template, func(name string) (string, error) {
		value, ok := variables[name]
		if !ok {
			return "", fmt.Errorf("%s is not set", name)
		}
		return value, nil
	})
	return string(filled), err
}

// Documents are those of a file in YAML.
func Documents(file string) []string { return strings.Split(file, "\n---\n") }

// Decode reads a file in YAML; a kind or a field that no API knows is an error.
func Decode(file string) ([]client.Object, error) {
	decoder := serializer.NewCodecFactory(scheme.Scheme(), serializer.EnableStrict).UniversalDeserializer()
	var objects []client.Object
	for _, document := range Documents(file) {
		decoded, kind, err := decoder.Decode([]byte(document), nil, nil)
		if err != nil {
			return nil, fmt.Errorf("%w in\n%s", err, document)
		}
		object, ok := decoded.(client.Object)
		if !ok {
			return nil, fmt.Errorf("%s is no object with a name in\n%s", kind, document)
		}
		objects = append(objects, object)
	}
	return objects, nil
}

// One is the only object of a type.
func One[T client.Object](objects []client.Object) (T, error) {
	var found []T
	for _, object := range objects {
		if typed, ok := object.(T); ok {
			found = append(found, typed)
		}
	}
	if len(found) != 1 {
		return *new(T), fmt.Errorf("%d objects %T, want one", len(found), *new(T))
	}
	return found[0], nil
}
