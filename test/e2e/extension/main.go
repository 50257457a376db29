// Command extension runs in a tenant and extends its API: by an admission webhook that refuses everything, and by an
// aggregated API with one resource. Both only work while API servers reach its pod.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// aggregated is the API that it serves.
var aggregated = schema.GroupVersion{Group: "extension.example.com", Version: "v1"}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "extension:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 3 {
		return errors.New("usage: extension ADDRESS CERTIFICATE KEY")
	}
	mux := http.NewServeMux()
	mux.Handle("/refuse", &admission.Webhook{Handler: admission.HandlerFunc(func(context.Context, admission.Request) admission.Response {
		return admission.Denied("the extension refuses it")
	})})
	mux.Handle("/apis/"+aggregated.String(), answer(metav1.APIResourceList{
		TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: aggregated.String(),
		APIResources: []metav1.APIResource{{Name: "answers", SingularName: "answer", Kind: "Answer", Verbs: metav1.Verbs{"list"}}},
	}))
	mux.Handle("/apis/"+aggregated.String()+"/answers", answer(metav1.PartialObjectMetadataList{
		TypeMeta: metav1.TypeMeta{Kind: "AnswerList", APIVersion: aggregated.String()},
		Items:    []metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{Name: "the-answer"}}},
	}))
	server := &http.Server{Addr: args[0], Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	fmt.Println("listens at", args[0])
	go func() {
		<-ctx.Done()
		_ = server.Close()
	}()
	if err := server.ListenAndServeTLS(args[1], args[2]); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// answer is always the same.
func answer(object any) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(object) // who asked may be gone
	})
}
