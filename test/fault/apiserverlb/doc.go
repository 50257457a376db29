// Package apiserverlb tests kok-apiserver-lb in front of real kube-apiservers that fail in all the ways there are, while
// the clients of a worker use them. It is make test-lb.
package apiserverlb
