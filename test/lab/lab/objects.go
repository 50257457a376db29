package lab

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// collectObjects writes every object of the host cluster, one file a resource.
func (l *Lab) collectObjects(ctx context.Context, directory string) error {
	config, err := l.RESTConfig()
	if err != nil {
		return err
	}
	config.Timeout, config.QPS, config.Burst = 20*time.Second, 100, 200
	config.WarningHandler = rest.NoWarnings{} // deprecated resources are collected too
	found, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	lists, err := found.ServerPreferredResources()
	errs := []error{}
	if err != nil { // with what was found in spite of it
		errs = append(errs, fmt.Errorf("ask the host cluster for its resources: %w", err))
	}
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, resource := range list.APIResources {
			if !slices.Contains(resource.Verbs, "list") {
				continue
			}
			path := filepath.Join(directory, fileName(resource.Name, version.Group)+".yaml")
			if err := writeResource(ctx, client.Resource(version.WithResource(resource.Name)), path); err != nil {
				errs = append(errs, fmt.Errorf("collect %s of %s: %w", resource.Name, version, err))
			}
		}
	}
	return errors.Join(errs...)
}

func writeResource(ctx context.Context, client dynamic.ResourceInterface, path string) error {
	list, err := client.List(ctx, metav1.ListOptions{})
	if err != nil || len(list.Items) == 0 {
		return err
	}
	return writeTo(path, func(w io.Writer) error {
		for i := range list.Items {
			data, err := yaml.Marshal(presentable(&list.Items[i]).Object)
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintf(w, "---\n%s", data); err != nil {
				return err
			}
		}
		return nil
	})
}

// presentable leaves out who set which field, and every value of a Secret but its length.
func presentable(object *unstructured.Unstructured) *unstructured.Unstructured {
	object.SetManagedFields(nil)
	if object.GetKind() != "Secret" || object.GroupVersionKind().Group != "" {
		return object
	}
	annotations := object.GetAnnotations()
	delete(annotations, "kubectl.kubernetes.io/last-applied-configuration")
	object.SetAnnotations(annotations)
	values, _, _ := unstructured.NestedStringMap(object.Object, "data")
	lengths := map[string]any{}
	for name, value := range values {
		lengths[name] = fmt.Sprintf("<%d bytes>", base64.StdEncoding.DecodedLen(len(value)))
	}
	delete(object.Object, "data")
	if len(lengths) > 0 {
		object.Object["data"] = lengths
	}
	return object
}
