// Package webhooks refuses what cannot work before it is stored. Every refusal names the field, the
// value and what would be right. What the schema can say is said there, with CEL; here are the rules
// that need Go.
//
// The webhooks read nothing but the request and change nothing in it. An update that leaves spec as it
// is, or concerns an object that is being deleted, is never refused: a newer provider with a new rule
// must not keep a finalizer or an annotation from being written.
package webhooks
