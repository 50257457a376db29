package hostcluster

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"text/template"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "sigs.k8s.io/cluster-api/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// fieldManager owns what the lab applies.
const fieldManager = "kok-lab"

//go:embed manifests
var manifests embed.FS

// applyManifests applies what the host cluster is furnished with. Manifests are templates over the artifacts.
func (c *cluster) applyManifests(ctx context.Context) error {
	return fs.WalkDir(manifests, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(manifests, path)
		if err != nil {
			return err
		}
		t, err := template.New(path).Option("missingkey=error").Parse(string(data))
		if err != nil {
			return err
		}
		var text bytes.Buffer
		if err := t.Execute(&text, c.Set); err != nil {
			return err
		}
		if err := c.apply(ctx, text.Bytes()); err != nil {
			return fmt.Errorf("apply %s: %w", path, err)
		}
		return nil
	})
}

// api is a client for objects of all kinds.
func (c *cluster) api() (client.Client, error) { return client.New(c.rest, client.Options{}) }

// rank of an object in the order of application.
func rank(o *unstructured.Unstructured) int {
	switch o.GetKind() {
	case "Deployment", "DaemonSet", "StatefulSet":
		return 1
	}
	return 0
}

// apply applies YAML documents by server-side apply, in their order but for what runs.
func (c *cluster) apply(ctx context.Context, documents []byte) error {
	api, err := c.api()
	if err != nil {
		return err
	}
	objects, err := utilyaml.ToUnstructured(documents)
	if err != nil {
		return err
	}
	// What runs comes last: a pod without its service account waits for a retry.
	slices.SortStableFunc(objects, func(a, b unstructured.Unstructured) int { return cmp.Compare(rank(&a), rank(&b)) })
	for i := range objects {
		o := &objects[i]
		configuration := client.ApplyConfigurationFromUnstructured(o)
		if err := api.Apply(ctx, configuration, client.FieldOwner(fieldManager), client.ForceOwnership); err != nil {
			return fmt.Errorf("%s %s: %w", o.GetKind(), client.ObjectKeyFromObject(o), err)
		}
	}
	return nil
}
