// Package adoption gives each component of a control plane the rendering that it shall have: the stored one while the inputs are
// the same, else a new one.
//
//	Adopter.Apply        adopts a new rendering of a component, unless something holds it, and applies it (component.go)
//	Adopter.Keep         keeps up the stored rendering while a step before waits or fails (component.go)
//	Adopter.Rendering    chooses between the stored rendering and a new one (adopter.go)
//	Adopter.ApplyAs      applies a rendering, prunes what it has no more, and says what others wait for (adopter.go)
//	Adopter.WhyHeld      says why components keep what they have (held.go)
//	Adopter.Judge        makes the store refuse what no program could have rendered (stored.go)
//	TakenAgain           says which former renderings spec names (again.go)
//
// A reconcile fills in an [Adopter] before each step. Package etcdmembers adopts renderings of etcd with it, with care of its own. This
// package changes neither a control plane nor its input.
package adoption
