// Package namespaceuser attacks the providers as a user who may write the kinds of a cluster in one namespace, and nothing else.
// Such a user wants what is not in the namespace: Secrets of others, tokens of managers, objects elsewhere, host ports and hosts of
// other tenants, and privileges on host nodes.
//
// A real kube-apiserver judges the attacker by its role, and the three managers run as their own programs, each with its own
// service account, role, webhooks and token. Of every try is listed what stopped it. A control before it shows that the permitted
// form works. Whether a try succeeded is judged by what it did, not by what anybody says of it: see harm.
package namespaceuser
