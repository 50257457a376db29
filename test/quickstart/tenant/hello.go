package tenant

import (
	"context"
	"errors"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

// HelloImage is the image of the program hello, which workers must have.
const HelloImage = "ghcr.io/kube-on-kube/hello:quickstart"

const (
	helloNamespace = "hello"
	helloURL       = "http://hello"
)

// Hello runs a web server on the tenant's workers, and a pod that asks it by the name of its Service: the pod
// network, kube-proxy and CoreDNS all have to work for its answer, which comes out of the pod's log.
func (t *Tenant) Hello(ctx context.Context) error {
	return t.with(ctx, func(tenant *kubernetes.Clientset) error {
		job, err := createHello(ctx, tenant)
		if err != nil {
			return err
		}
		err = t.Log.Wait(ctx, "a pod to reach a Service by its name", timeout, []string{
			"clusterctl get kubeconfig " + t.Key.Name + " --namespace " + t.Key.Namespace + " > " + t.Key.Name + ".kubeconfig",
			"kubectl --kubeconfig " + t.Key.Name + ".kubeconfig get pods --all-namespaces --output wide",
			"kubectl --kubeconfig " + t.Key.Name + ".kubeconfig --namespace " + helloNamespace + " describe pods",
		}, func(ctx context.Context) (done bool, blocked string, err error) {
			server, err := tenant.AppsV1().Deployments(helloNamespace).Get(ctx, "hello", metav1.GetOptions{})
			if err != nil {
				return false, "", err
			}
			now, err := tenant.BatchV1().Jobs(helloNamespace).Get(ctx, job.Name, metav1.GetOptions{})
			if err != nil {
				return false, "", err
			}
			return now.Status.Succeeded > 0, fmt.Sprintf("%d of %d servers run, the client failed %d times", server.Status.AvailableReplicas, *server.Spec.Replicas, now.Status.Failed), nil
		})
		if err != nil {
			return err
		}
		node, answer, err := answerOf(ctx, tenant, job)
		if err == nil {
			t.Log.Print("a pod on %s asked %s: %s", node, helloURL, answer)
		}
		return err
	})
}

// createHello makes a server with its Service, unless they are there, and a new client.
func createHello(ctx context.Context, tenant *kubernetes.Clientset) (*batchv1.Job, error) {
	labels := map[string]string{"app": "hello"}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "hello"}, Spec: appsv1.DeploymentSpec{
		Replicas: ptr.To[int32](2), Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: hello("serve", ":8080")}},
	}}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "hello"}, Spec: corev1.ServiceSpec{
		Selector: labels, Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}},
	}}
	_, namespaceErr := tenant.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: helloNamespace}}, metav1.CreateOptions{})
	_, deploymentErr := tenant.AppsV1().Deployments(helloNamespace).Create(ctx, deployment, metav1.CreateOptions{})
	_, serviceErr := tenant.CoreV1().Services(helloNamespace).Create(ctx, service, metav1.CreateOptions{})
	job, jobErr := tenant.BatchV1().Jobs(helloNamespace).Create(ctx, helloJob(metav1.ObjectMeta{GenerateName: "ask-"}, "ask", helloURL), metav1.CreateOptions{})
	var problems []error
	for _, err := range []error{namespaceErr, deploymentErr, serviceErr, jobErr} {
		if !apierrors.IsAlreadyExists(err) {
			problems = append(problems, err)
		}
	}
	if err := errors.Join(problems...); err != nil {
		return nil, fmt.Errorf("create a web server and its client in the tenant: %w", err)
	}
	return job, nil
}

// hello is a container of the program hello.
func hello(args ...string) []corev1.Container {
	return []corev1.Container{{Name: "hello", Image: HelloImage, Args: args}}
}

// helloJob runs the program hello until it succeeds.
func helloJob(meta metav1.ObjectMeta, args ...string) *batchv1.Job {
	return &batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{
		BackoffLimit: ptr.To[int32](20),
		Template:     corev1.PodTemplateSpec{Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyOnFailure, Containers: hello(args...)}},
	}}
}

// answerOf is what the pod of a Job that succeeded printed, and its node: kube-apiserver has it from the
// worker's kubelet.
func answerOf(ctx context.Context, tenant *kubernetes.Clientset, job *batchv1.Job) (node, answer string, err error) {
	pods, err := tenant.CoreV1().Pods(job.Namespace).List(ctx, metav1.ListOptions{LabelSelector: batchv1.JobNameLabel + "=" + job.Name})
	if err != nil {
		return "", "", fmt.Errorf("list the pods of Job %s/%s: %w", job.Namespace, job.Name, err)
	}
	for _, pod := range pods.Items {
		if pod.Status.Phase != corev1.PodSucceeded {
			continue
		}
		log, err := tenant.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{}).DoRaw(ctx)
		if err != nil {
			return "", "", fmt.Errorf("read the log of pod %s/%s on %s: %w", pod.Namespace, pod.Name, pod.Spec.NodeName, err)
		}
		return pod.Spec.NodeName, strings.TrimSpace(string(log)), nil
	}
	return "", "", fmt.Errorf("no pod of Job %s/%s succeeded", job.Namespace, job.Name)
}
