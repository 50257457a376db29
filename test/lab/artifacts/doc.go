// Package artifacts makes everything that the lab is built from: the real Kubernetes, etcd, Cluster API and
// cert-manager programs, their container images, the root file system of the lab's hosts, and a container store
// that already holds the images.
//
// Everything is compiled from Go modules or installed from Debian's packages, and kept in a cache folder outside the
// checkout. A folder of the cache is named after what it holds and a key over all inputs of its recipe, is written
// under a temporary name and renamed when it is complete: [Ensure] can be interrupted at any moment and run again.
package artifacts
