package webhooks

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
)

// Nothing would judge what a template has and specOf leaves out.
func TestEveryFieldOfATemplateIsJudged(t *testing.T) {
	template := controlplanev1.KOKControlPlaneTemplateResourceSpec{}
	fill(reflect.ValueOf(&template).Elem())
	want, got := fields(t, template), fields(t, specOf(template))
	if len(want) < 10 {
		t.Fatalf("only %d fields of a template were filled", len(want))
	}
	// What is no field of a template is unset, and rendered as empty at most.
	if diff := cmp.Diff(want, common(want, got)); diff != "" {
		t.Errorf("a template (-) and what is judged of it (+) differ:\n%s", diff)
	}
}

// ofOneControlPlane are the fields of a control plane that a template cannot have: its Cluster or the controller sets them.
var ofOneControlPlane = []string{
	"version", "replicas", "controlPlaneEndpoint", "hosting.ports", "hosting.exposure.nodePort", "rollout.renderings",
}

// Users of ClusterClasses could not set a field that the template lacks. CONTRIBUTING.md, "A new field", promises that this
// test fails then.
func TestATemplateHasEveryFieldThatIsNotOfOneControlPlane(t *testing.T) {
	spec, template := controlplanev1.KOKControlPlaneSpec{}, controlplanev1.KOKControlPlaneTemplateResourceSpec{}
	fill(reflect.ValueOf(&spec).Elem())
	fill(reflect.ValueOf(&template).Elem())
	missing := lacking("", fields(t, spec), fields(t, template))
	slices.Sort(missing)
	if want := slices.Sorted(slices.Values(ofOneControlPlane)); !slices.Equal(missing, want) {
		t.Errorf("a KOKControlPlaneTemplate lacks %v of a KOKControlPlane, and should lack %v: add the field to KOKControlPlaneTemplateResourceSpec, "+
			"or to ofOneControlPlane when only one control plane can have it", missing, want)
	}
}

// lacking are the paths of what has is and got has not.
func lacking(path string, has, got map[string]any) []string {
	var missing []string
	for name, value := range has {
		found, ok := got[name]
		inner, isMap := value.(map[string]any)
		innerFound, isMapToo := found.(map[string]any)
		switch {
		case !ok:
			missing = append(missing, path+name)
		case isMap && isMapToo:
			missing = append(missing, lacking(path+name+".", inner, innerFound)...)
		}
	}
	return missing
}

// A container engine refuses an image without a tag only when the pod starts. CONTRIBUTING.md, "A new field", promises that
// this test fails for a field of which nobody judges the image.
func TestEveryFieldWithAnImageIsJudged(t *testing.T) {
	spec := controlplanev1.KOKControlPlaneSpec{}
	fill(reflect.ValueOf(&spec).Elem())
	images := imagesIn("spec.", fields(t, spec))
	if len(images) < 8 {
		t.Fatalf("these fields have images: %v", images)
	}
	var judged []string
	for _, err := range validateSettings(&spec, field.NewPath("spec"), Limits{}) {
		judged = append(judged, err.Field)
	}
	for _, image := range images {
		if !slices.Contains(judged, image) {
			t.Errorf("%s may be %q, without a tag: have validateSettings judge it with validateImage", image, "filled")
		}
	}
}

// imagesIn are the paths of fields with an image.
func imagesIn(path string, has map[string]any) []string {
	var found []string
	for name, value := range has {
		if inner, isMap := value.(map[string]any); isMap {
			found = append(found, imagesIn(path+name+".", inner)...)
		} else if name == "image" || strings.HasSuffix(name, "Image") {
			found = append(found, path+name)
		}
	}
	return found
}

// fill sets every field that it can.
func fill(value reflect.Value) {
	if value.Type() == reflect.TypeFor[metav1.Time]() {
		value.Set(reflect.ValueOf(metav1.Unix(1, 0)))
		return
	}
	switch value.Kind() {
	case reflect.Struct:
		for i := range value.NumField() {
			if value.Field(i).CanSet() {
				fill(value.Field(i))
			}
		}
	case reflect.Pointer:
		value.Set(reflect.New(value.Type().Elem()))
		fill(value.Elem())
	case reflect.Slice:
		if value.Type().Elem().Kind() == reflect.Uint8 {
			value.SetBytes([]byte(`{}`))
			return
		}
		value.Set(reflect.MakeSlice(value.Type(), 1, 1))
		fill(value.Index(0))
	case reflect.Map:
		key, element := reflect.New(value.Type().Key()).Elem(), reflect.New(value.Type().Elem()).Elem()
		fill(key)
		fill(element)
		value.Set(reflect.MakeMap(value.Type()))
		value.SetMapIndex(key, element)
	case reflect.String:
		value.SetString("filled")
	case reflect.Int32, reflect.Int64:
		value.SetInt(1)
	case reflect.Bool:
		value.SetBool(true)
	}
}

func fields(t *testing.T, spec any) map[string]any {
	t.Helper()
	raw, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]any{}
	if err := json.Unmarshal(raw, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// common is the part of got that has the fields of want.
func common(want, got map[string]any) map[string]any {
	both := map[string]any{}
	for name, value := range want {
		found, ok := got[name]
		inner, isMap := value.(map[string]any)
		if foundMap, isMapToo := found.(map[string]any); isMap && isMapToo {
			found = common(inner, foundMap)
		}
		if ok {
			both[name] = found
		}
	}
	return both
}
