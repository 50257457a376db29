//go:build envtest

package envtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
)

var environment *Environment

func TestMain(m *testing.M) {
	ctrl.SetLogger(zap.New(zap.WriteTo(os.Stderr)))
	SetDefaultEventuallyTimeout(time.Minute)
	os.Exit(run(m))
}

func run(m *testing.M) int {
	var err error
	if environment, err = Start(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if err := environment.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}()
	return m.Run()
}

// newNamespace makes a namespace for one test.
func newNamespace(t *testing.T) string {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	NewWithT(t).Expect(environment.Client.Create(t.Context(), namespace)).To(Succeed())
	return namespace.Name
}

// minimal is the smallest KOKControlPlane that a person writes.
func minimal(namespace string) *controlplanev1.KOKControlPlane {
	return &controlplanev1.KOKControlPlane{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "tenant"},
		Spec:       controlplanev1.KOKControlPlaneSpec{Version: "v1.36.3"},
	}
}

// causes are the parts of a refusal, each as "field: message", as kubectl prints them.
func causes(t *testing.T, err error) []string {
	t.Helper()
	var status apierrors.APIStatus
	NewWithT(t).Expect(errors.As(err, &status)).To(BeTrue(), "want a refusal by the API server, got %v", err)
	NewWithT(t).Expect(status.Status().Reason).To(Equal(metav1.StatusReasonInvalid), "%v", err)
	var list []string
	for _, cause := range status.Status().Details.Causes {
		list = append(list, cause.Field+": "+cause.Message)
	}
	return list
}

// expectRefusal checks what a refusal says, word for word; no words mean that nothing is refused.
func expectRefusal(t *testing.T, err error, want ...string) {
	t.Helper()
	if len(want) == 0 {
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		return
	}
	NewWithT(t).Expect(causes(t, err)).To(ConsistOf(want))
}
