// Package webhooks refuses objects that cannot work before they are stored. Every refusal names the field, the value and
// what would be right. The schema has all rules that CEL can express; here are those that need Go.
//
// The webhooks read only the request and change nothing, so that dry runs have no effect. They never refuse an update that
// leaves spec as it is, or one of an object that is being deleted: a new rule of a newer provider must not keep anybody from
// writing an owner reference or an annotation.
package webhooks
