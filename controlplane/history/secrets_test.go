package history

import (
	"reflect"
	"regexp"
	"strings"
	"testing"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
)

// secret are names of fields that may hold what must not be in a revision.
var secret = regexp.MustCompile(`(?i)(secret|password|token|credential|privatekey|accesskey|kubeconfig|identity)`)

// named are fields that hold no more than the name of a Secret.
var named = regexp.MustCompile(`(Ref|^imagePullSecret)$`)

// leaf reports whether values of a type, or of its elements, have no fields.
func leaf(of reflect.Type) bool {
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice || of.Kind() == reflect.Map {
		of = of.Elem()
	}
	return of.Kind() != reflect.Struct
}

// What a revision has of spec may be read by whoever reads ControllerRevisions: it must name Secrets, and hold none.
func TestSpecHasNoFieldForASecret(t *testing.T) {
	seen := 0
	var walk func(of reflect.Type, path string)
	walk = func(of reflect.Type, path string) {
		switch of.Kind() {
		case reflect.Pointer, reflect.Map:
			walk(of.Elem(), path)
		case reflect.Slice:
			if of.Elem().Kind() == reflect.Uint8 {
				t.Errorf("%s holds bytes, which may be a key", path)
			}
			walk(of.Elem(), path)
		case reflect.Struct:
			// Fields of Kubernetes' own kinds name Secrets where they have to do with them.
			if !strings.HasSuffix(of.PkgPath(), "/api/controlplane/v1alpha1") {
				return
			}
			for i := range of.NumField() {
				field := of.Field(i)
				name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
				seen++
				if named.MatchString(name) {
					continue
				}
				if secret.MatchString(name) && leaf(field.Type) {
					t.Errorf("%s.%s may hold a secret: let it name a Secret instead, or say here what it holds", path, name)
				}
				walk(field.Type, path+"."+name)
			}
		}
	}
	walk(reflect.TypeFor[controlplanev1.KOKControlPlaneSpec](), "spec")
	if seen < 60 {
		t.Errorf("only %d fields were seen", seen)
	}
}
