// licences has a module of its own: what tells licences must not choose the versions of what the product is made of.
module github.com/kube-on-kube/cluster-api-provider-kok/hack/tools/licences

go 1.26.0

require github.com/google/licenseclassifier/v2 v2.0.0

require (
	github.com/davecgh/go-spew v1.1.1 // indirect
	github.com/sergi/go-diff v1.1.0 // indirect
)
