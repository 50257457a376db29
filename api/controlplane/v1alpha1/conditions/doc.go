// Package conditions has the conditions of a KOKControlPlane and a KOKEtcdSnapshot, and the reasons that they can have.
//
// Its comments are what docs/reference/conditions.md is made of: the second paragraph of a reason says what a person does.
package conditions
