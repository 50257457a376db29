package tenantapi

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// secretPages is a tenant that answers with so many pages of one Secret; none for pages without an end.
func secretPages(count int, name string) *pages {
	return &pages{limit: secretsPage, count: count, fill: func(list client.ObjectList, asked *client.ListOptions) bool {
		secrets, _ := list.(*corev1.SecretList)
		secrets.Items = []corev1.Secret{{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}}
		of, exact := asked.FieldSelector.RequiresExactMatch("type")
		return exact && of == string(corev1.SecretTypeServiceAccountToken)
	}}
}

func TestPagesOfSecretsWithoutAnEndAreNotAskedFor(t *testing.T) {
	for name, test := range map[string]struct {
		pages  int
		secret string
		says   string
	}{
		"one page":                {1, "token", ""},
		"as many as there may be": {secretsPages, "token", ""},
		"one more":                {secretsPages + 1, "token", "more than 25000 Secrets"},
		"no end":                  {0, "token", "more than 25000 Secrets"},
		"a name that is too long": {1, strings.Repeat("a", 254), "a name that no API server takes"},
		"a name with a new line":  {1, "a\nb", "a name that no API server takes"},
	} {
		t.Run(name, func(t *testing.T) {
			guard, tenant, seen := (&Guards{}).Of(blue), secretPages(test.pages, test.secret), 0
			err := EachSecret(t.Context(), guard, tenant, corev1.SecretTypeServiceAccountToken, func(*corev1.Secret) { seen++ })
			if (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v", err)
			}
			if tenant.asked > secretsPages || (guard.Problem() == "") != (test.says == "") {
				t.Errorf("%d pages were asked for; against the tenant: %q", tenant.asked, guard.Problem())
			}
			if want := tenant.asked; test.secret == "token" && seen != want {
				t.Errorf("%d Secrets were seen, want %d", seen, want)
			}
		})
	}
}
