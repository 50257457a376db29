package providers

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	sigsyaml "sigs.k8s.io/yaml"
)

// externalConfig is clusterctlConfig's file beside the one that make release-manifests wrote.
const externalConfig = "clusterctl-external-cert-manager.yaml"

// clusterctlConfig is the configuration that make release-manifests wrote; where the host cluster has a cert-manager of
// its own, with the word that it is not clusterctl's: clusterctl then waits for that one, and installs no other in its
// place. Only clusterctl init asks.
func (i *Installer) clusterctlConfig() (string, error) {
	file := filepath.Join(i.Repository, "clusterctl.yaml")
	_, err := i.Client.RESTMapper().RESTMapping(schema.GroupKind{Group: "cert-manager.io", Kind: "Certificate"})
	if meta.IsNoMatchError(err) {
		return file, nil
	}
	if err != nil {
		return "", fmt.Errorf("find out whether the host cluster has cert-manager: %w", err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	var config map[string]any
	if err := sigsyaml.Unmarshal(data, &config); err != nil {
		return "", fmt.Errorf("read %s: %w", file, err)
	}
	config["cert-manager"] = map[string]string{"externallyProvisioned": "true", "timeout": "2m"}
	if data, err = sigsyaml.Marshal(config); err != nil {
		return "", err
	}
	file = filepath.Join(i.Repository, externalConfig)
	return file, os.WriteFile(file, data, 0o644)
}

// podProblem says why a manager's pod does not run.
func podProblem(pods []corev1.Pod) string {
	for _, pod := range pods {
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
				return fmt.Sprintf(", pod %s is not scheduled: %s", pod.Name, condition.Message)
			}
		}
		for _, container := range pod.Status.ContainerStatuses {
			switch state := container.State; {
			case state.Waiting != nil && state.Waiting.Reason != "ContainerCreating":
				return fmt.Sprintf(", pod %s: %s: %s", pod.Name, state.Waiting.Reason, state.Waiting.Message)
			case state.Terminated != nil:
				return fmt.Sprintf(", pod %s: %s: %s", pod.Name, state.Terminated.Reason, lastLine(state.Terminated.Message))
			}
		}
	}
	return ""
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

func commandLine(args []string) string { return strings.Join(args, " ") }
