package untrusted

import (
	"errors"

	"k8s.io/client-go/tools/clientcmd"
)

// CheckReach refuses a kubeconfig that makes its user read a local file or run a program, in any of its contexts.
// Everything else is left to its author. Content that is no kubeconfig passes, because it cannot be used. Errors hold
// nothing of the content.
func CheckReach(kubeconfig []byte) error {
	parsed, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return nil //nolint:nilerr // Cluster API reads it by the same function.
	}
	var problems []error
	for _, cluster := range parsed.Clusters {
		if cluster != nil && cluster.CertificateAuthority != "" {
			problems = append(problems, file("certificate-authority"))
		}
	}
	for _, user := range parsed.AuthInfos {
		if user != nil {
			problems = append(problems, validateUser(user))
		}
	}
	return errors.Join(problems...)
}
