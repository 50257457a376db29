# make help shows what there is to make.
SHELL := /bin/bash -o pipefail
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

VERSION ?= v0.1.0
IMAGE_REGISTRY ?= ghcr.io/kube-on-kube
IMAGE_TAG ?= dev
IMAGES := --image-registry=$(IMAGE_REGISTRY) --image-tag=$(IMAGE_TAG)

# Every Go program of the project is static and reproducible. Tests and linters have the same flags: what is compiled for one
# is there for the others, and for another clone of the repository.
export CGO_ENABLED := 0
REPRODUCIBLE := -trimpath -buildvcs=false
export GOFLAGS := $(strip $(filter-out $(REPRODUCIBLE),$(GOFLAGS)) $(REPRODUCIBLE))

GIT_COMMIT := $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
VERSION_PACKAGE := github.com/kube-on-kube/cluster-api-provider-kok/internal/version
LDFLAGS := -s -w -X $(VERSION_PACKAGE).gitVersion=$(VERSION) -X $(VERSION_PACKAGE).gitCommit=$(GIT_COMMIT)

CONTROLLER_GEN := bin/controller-gen
CRD_REF_DOCS := bin/crd-ref-docs
GOLANGCI_LINT := bin/golangci-lint
GOTESTSUM := bin/gotestsum
LAB := bin/lab

##@ Use it

# The time of what make does here is a part of the quickstart's.
STARTED := $(shell date +%s)
# KUBECONFIG counts when it is given to make, not when the shell happens to have one.
EXISTING_CLUSTER := $(if $(filter command line,$(origin KUBECONFIG)),$(KUBECONFIG))
# The newest that the lab is built with, unless one is given.
HOST_VERSION ?=
QUICKSTART := bin/quickstart --started=$(STARTED) $(IMAGES) --provider-version=$(VERSION) $(if $(HOST_VERSION),--host-version=$(HOST_VERSION))

.PHONY: quickstart
quickstart: $(if $(EXISTING_CLUSTER),check-go,check-machine) build release-manifests $(LAB) ## Lab up, a tenant with two workers, and a look at it; KUBECONFIG=... uses an existing cluster, without workers
	@go build -o bin/quickstart ./test/quickstart
	@$(QUICKSTART) $(if $(EXISTING_CLUSTER),--kubeconfig=$(EXISTING_CLUSTER))

.PHONY: lab-up
lab-up: check-machine build release-manifests $(LAB) ## Start the lab, a real host cluster on this machine, with the providers installed; HOST_VERSION=v1.34.4 for another Kubernetes
	@go build -o bin/quickstart ./test/quickstart
	@$(QUICKSTART) providers

.PHONY: clean-lab
clean-lab: check-go $(LAB) ## Stop the lab and leave nothing of it behind but the cache
	$(LAB) down --purge

##@ Develop

.PHONY: generate
generate: check-go $(CONTROLLER_GEN) $(CRD_REF_DOCS) ## Write generated code, CRDs, RBAC, webhook manifests, and the references of the API and its conditions
	set -e; for provider in controlplane bootstrap infrastructure; do \
		$(CONTROLLER_GEN) object crd:crdVersions=v1 rbac:roleName=manager-role webhook \
			paths="./api/$$provider/...;./$$provider/..." output:crd:dir=config/$$provider/crd/bases \
			output:rbac:dir=config/$$provider/rbac output:webhook:dir=config/$$provider/webhook; \
	done
	@mkdir -p docs/reference
	$(CRD_REF_DOCS) --log-level=ERROR --source-path=api --config=hack/api-reference.yaml \
		--renderer=markdown --output-path=docs/reference/api.md
	go run ./hack/conditions
	go run ./hack/alerts
	go run ./hack/contracts

.PHONY: build
build: check-go bin/kok bin/kok-apiserver-lb bin/kok-software ## Build the providers' managers, the agent of etcd, the programs of workers and nodes, kok, and what quickstart runs in a tenant
	go build -ldflags '$(LDFLAGS)' -o bin/manager ./controlplane
	go build -ldflags '$(LDFLAGS)' -o bin/bootstrap-manager ./bootstrap
	go build -ldflags '$(LDFLAGS)' -o bin/infrastructure-manager ./infrastructure
	go build -ldflags '$(LDFLAGS)' -o bin/kok-etcd-agent ./controlplane/etcd/agent/cmd/kok-etcd-agent
	go build -ldflags '$(LDFLAGS)' -o bin/kok-node-keys ./bootstrap/nodekeys/cmd/kok-node-keys
	go build -o bin/hello ./test/quickstart/hello

# Go knows best whether it is up to date.
.PHONY: bin/kok-apiserver-lb
bin/kok-apiserver-lb: check-go
	go build -ldflags '$(LDFLAGS)' -o $@ ./bootstrap/apiserverlb/cmd/kok-apiserver-lb

.PHONY: bin/kok
bin/kok: check-go
	go build -ldflags '$(LDFLAGS)' -o $@ ./cmd/kok

# What installs the software of machines.
.PHONY: bin/kok-software
bin/kok-software: check-go
	go build -ldflags '$(LDFLAGS)' -o $@ ./bootstrap/software/cmd/kok-software

.PHONY: release-manifests
release-manifests: check-go ## Write a local clusterctl repository to out/repository and out/clusterctl.yaml
	go run ./hack/release --version=$(VERSION) $(IMAGES)

SIGNING_KEY ?=
.PHONY: release
release: check-go bin/packages ## Write everything that is published to out/release: images, programs, packages, a clusterctl repository; VERSION=v0.2.0, and SIGNING_KEY=cosign.key to sign it
	go build -o bin/release ./hack/release
	bin/release build --version=$(VERSION) --image-registry=$(IMAGE_REGISTRY) --signing-key='$(SIGNING_KEY)' --ldflags='$(LDFLAGS)'

REGISTRY ?=
CA_FILE ?=
.PHONY: push
push: check-go ## Push the images of out/release; REGISTRY=registry.example.com/kok, and CA_FILE=... if the registry's is not the system's
	go build -o bin/release ./hack/release
	bin/release push --registry='$(REGISTRY)' --ca-file='$(CA_FILE)'

##@ Test

# What cleans up after a SIGTERM is built and run by itself: go run would not pass the signal on.

.PHONY: test
test: check-machine ## The gating tests: lint, generated files, races, unit and envtest, one journey in the lab; ends with a table
	@go build -o bin/matrix ./hack/matrix && exec bin/matrix run test

.PHONY: lint
lint: check-go $(GOLANGCI_LINT) ## Run the linters
	$(GOLANGCI_LINT) run --allow-parallel-runners

.PHONY: verify
verify: check-go $(CONTROLLER_GEN) $(CRD_REF_DOCS) ## Check that generated files and go.mod are up to date
	go mod tidy -diff
	go run ./hack/verify
	@$(MAKE) licences

.PHONY: licences
licences: check-go bin/licences ## Check that every dependency has a licence that the project may use; a part of verify
	bin/licences

# Without a database of vulnerabilities nothing is checked, and it fails.
DB ?=
.PHONY: vulncheck
vulncheck: check-go $(if $(DB),bin/govulncheck) ## Look for known vulnerabilities in what the programs call; DB=https://vuln.go.dev or the path of a copy
	go run ./hack/vulncheck --db='$(DB)'

# Tests against a real kube-apiserver carry the build tag envtest, tests that need root or a program of Debian the tag root,
# those of the load balancer among failing API servers the tag lb, tests in the lab the tag e2e, the lab's own the tag lab,
# those that need the program cosign, which takes minutes to build, the tag cosign, what makes whole releases the tag reproducible;
# what measures has the tag bench.
.PHONY: test-unit
test-unit: check-go ## Unit tests and golden files, as any user
	go test ./...

# A kube-apiserver has 20 seconds to start by default, which a busy machine exceeds.
ENVTEST_ASSETS := KUBEBUILDER_ASSETS=$(CURDIR)/bin/envtest KUBEBUILDER_CONTROLPLANE_START_TIMEOUT=3m KUBEBUILDER_CONTROLPLANE_STOP_TIMEOUT=3m KOK_VERSITYGW=$(CURDIR)/bin/versitygw
GO_TESTS := mkdir -p out && go build -o bin/gotests ./hack/gotests && $(ENVTEST_ASSETS) exec bin/gotests
# Of tests with very many cases, and of long tests, the gate runs a sample, which changes with the commit; "every" runs all of them.
test-race test-others: export KOK_TEST_SAMPLE ?= $(GIT_COMMIT)

.PHONY: test-envtest
test-envtest: check-go bin/versitygw ## Tests against a real etcd and kube-apiserver, as any user
	go run ./hack/envtest-assets bin/envtest
	$(ENVTEST_ASSETS) go test -timeout=45m -tags=envtest ./api/... ./bootstrap/... ./controlplane/... ./hack/release ./infrastructure/... ./internal/... ./templates/... ./test/envtest/... ./test/journal/... ./test/lab/mirror ./test/noise

.PHONY: test-root
test-root: check-machine ## Tests that need root on Debian 12: network namespaces, an OpenSSH server, cloud-init, packages
	go run ./hack/root-assets
	go test -timeout=15m -tags=root ./bootstrap/apiserverlb/program ./bootstrap/apiserverlb/serviceaddress ./bootstrap/cloudinit ./bootstrap/software/... ./controlplane/etcd/agent/look ./controlplane/etcd/agent/store \
		./hack/release ./infrastructure/hostclient ./infrastructure/hosts ./infrastructure/hosts/network ./infrastructure/ssh ./test/isolation ./test/lab/lab ./test/shell

.PHONY: test-race
test-race: check-go $(GOTESTSUM) ## Unit tests of every package that is parallel by its own hand, with Go's race detector
	@$(GO_TESTS) race

.PHONY: test-others
test-others: check-machine $(GOTESTSUM) bin/versitygw ## All other tests that need no lab: what is left of unit tests, envtests, and those that need root
	go run ./hack/envtest-assets bin/envtest
	go run ./hack/root-assets
	@$(GO_TESTS) others

.PHONY: test-every
test-every: check-machine $(GOTESTSUM) bin/versitygw ## All tests that need no lab, with Go's race detector, and every case where others run a sample
	go run ./hack/envtest-assets bin/envtest
	go run ./hack/root-assets
	@$(GO_TESTS) every

.PHONY: test-monitoring
test-monitoring: check-go bin/promtool ## promtool checks the rules for Prometheus, and sees each alert quiet and then firing
	bin/promtool check rules --lint=all --lint-fatal config/monitoring/prometheus-rules.yaml
	bin/promtool test rules config/monitoring/prometheus-rules_test.yaml

.PHONY: test-findings
test-findings: check-machine $(GOTESTSUM) ## The tests that are named after findings of an audit of security, and how many findings have none that passes
	go run ./hack/envtest-assets bin/envtest
	go run ./hack/root-assets
	@$(GO_TESTS) findings

.PHONY: test-attack-namespace
test-attack-namespace: check-go ## Who may write in one namespace attacks the providers; lists every try with what stopped it
	go run ./hack/envtest-assets bin/envtest
	$(ENVTEST_ASSETS) go test -count=1 -v -timeout=45m -tags=envtest,attack ./test/attack/namespaceuser

# The suite's paths are relative to the folder that it is started in: it is built first.
E2E_LABELS ?= gating
E2E_TIMEOUT ?= 40m
E2E_REPORT ?= out/e2e.json

.PHONY: test-e2e
test-e2e: lab-up ## The gating journey in the lab
	go build -o bin/extension ./test/e2e/extension
	go test -c -tags=e2e -o bin/e2e.test ./test/e2e
	bin/e2e.test -test.timeout=0 -ginkgo.timeout=$(E2E_TIMEOUT) -ginkgo.v -ginkgo.label-filter='$(E2E_LABELS)' -ginkgo.json-report=$(E2E_REPORT) \
		-e2e.image-registry=$(IMAGE_REGISTRY) -e2e.image-tag=$(IMAGE_TAG) -e2e.provider-version=$(VERSION) $(E2E_FLAGS)

.PHONY: e2e
e2e: test-e2e ## The same as test-e2e

.PHONY: e2e-full
e2e-full: ## The long waits and the faults, in the lab
	@$(MAKE) test-e2e E2E_LABELS=full E2E_TIMEOUT=5h E2E_REPORT=out/e2e-full.json

.PHONY: test-attack
test-attack: ## A tenant's administrator attacks the host cluster and three neighbours, in the lab; out/attack lists every try with what stopped it
	@$(MAKE) test-e2e E2E_LABELS=attack E2E_TIMEOUT=1h E2E_REPORT=out/e2e-attack.json

FAULTS ?=
BACKUPS ?=
.PHONY: test-faults
test-faults: ## Members, volumes and host nodes of an etcd are lost, in the lab; ends with a row for each fault; FAULTS='!slow' or FAULTS=wiped runs some
	@$(MAKE) test-e2e E2E_LABELS='etcd_faults$(if $(FAULTS), && ($(FAULTS)))' E2E_TIMEOUT=4h E2E_REPORT=out/e2e-etcd-faults.json

SEED ?= 1
MINUTES ?= 30
.PHONY: soak
soak: ## One tenant's etcd gets one fault after the other, as SEED says, for MINUTES, in the lab; ends with a row for each fault
	@$(MAKE) test-e2e E2E_LABELS=soak E2E_TIMEOUT=24h E2E_REPORT=out/e2e-soak.json E2E_FLAGS='-e2e.soak-seed=$(SEED) -e2e.soak-length=$(MINUTES)m'

.PHONY: test-backups
test-backups: ## Snapshots of an etcd are taken, restored into a new Cluster and in place, and go on while the link is cut, in the lab; BACKUPS=restored runs one
	@$(MAKE) bin/kok
	@$(MAKE) test-e2e E2E_LABELS='etcd_backups$(if $(BACKUPS), && ($(BACKUPS)))' E2E_TIMEOUT=3h E2E_REPORT=out/e2e-etcd-backups.json

.PHONY: test-contracts
test-contracts: check-go ## One test for each rule of Cluster API's contracts, and their number
	go run ./hack/envtest-assets bin/envtest
	go build -o bin/test-contracts ./hack/test-contracts
	$(ENVTEST_ASSETS) bin/test-contracts

.PHONY: test-breaks
test-breaks: check-go ## Break the product in many ways, and see that a test notices each; BREAKS=name,... tries some of test/breaks/patches
	go run ./hack/envtest-assets bin/envtest
	go build -o bin/breaks ./test/breaks
	$(ENVTEST_ASSETS) bin/breaks --only='$(BREAKS)'

FUZZTIME ?= 30s
.PHONY: fuzz
fuzz: check-go ## Fuzz what reads bytes from outside, each target for FUZZTIME=30s; FUZZ=... fuzzes those whose package or name has it
	@go build -o bin/fuzz ./hack/fuzz && exec bin/fuzz --time=$(FUZZTIME) --only='$(FUZZ)'

.PHONY: test-signing
test-signing: check-go bin/cosign ## cosign verifies a signed release, and refuses what somebody changed
	KOK_COSIGN=$(CURDIR)/bin/cosign go test -count=1 -v -timeout=30m -tags=cosign -run=Cosign ./hack/release

.PHONY: test-reproducible
test-reproducible: check-go ## Two releases of the commit, from two folders and the second without a build cache, have the same bytes
	go test -count=1 -v -timeout=2h -tags=reproducible -run=SameBytesFromAnotherFolder ./hack/release

CAPI_TIMEOUT ?= 60m

.PHONY: test-capi
test-capi: lab-up ## Cluster API's own e2e specs, in the lab
	go test -c -tags=e2e -o bin/capi.test ./test/capi
	bin/capi.test -test.run='^TestClusterAPISpecs$$' -test.timeout=0 -ginkgo.timeout=$(CAPI_TIMEOUT) -ginkgo.v -ginkgo.json-report=out/capi.json \
		-capi.image-registry=$(IMAGE_REGISTRY) -capi.image-tag=$(IMAGE_TAG) -capi.provider-version=$(VERSION)

.PHONY: test-conformance
test-conformance: lab-up ## Kubernetes' own conformance tests of the API, against a tenant in the lab
	go build -o bin/conformance ./test/conformance
	bin/conformance

.PHONY: test-lab
test-lab: check-machine bin/kok bin/kok-software bin/kok-apiserver-lb ## The lab's own tests: hosts boot, lose power and leave nothing behind
	go run ./hack/envtest-assets bin/envtest
	$(ENVTEST_ASSETS) go test -p=1 -timeout=1h -tags=lab ./test/adminmachine ./test/lab/artifacts ./test/lab/clock ./test/lab/disk ./test/lab/host ./test/lab/lab ./test/lab/mirror ./test/registers

.PHONY: test-lb
test-lb: check-machine bin/kok-apiserver-lb ## kok-apiserver-lb in front of real kube-apiservers that fail
	go run ./hack/envtest-assets bin/envtest
	$(ENVTEST_ASSETS) KOK_APISERVER_LB=$(CURDIR)/bin/kok-apiserver-lb \
		go test -count=1 -p=1 -v -timeout=1h -tags=root,lb ./test/isolation ./test/fault/apiserverlb

.PHONY: test-all
test-all: check-machine ## Every test, with the long waits, and a table of what ran on this commit; PART=3/30 runs the third of thirty parts
	@go build -o bin/matrix ./hack/matrix && exec bin/matrix run test-all --part=$(PART)

.PHONY: bench-gate
bench-gate: check-go ## What the last make test and make test-breaks measured
	@go build -o bin/matrix ./hack/matrix && exec bin/matrix figures test test-race test-breaks

CREATE_FLAGS ?=
.PHONY: bench-create
bench-create: lab-up ## Time from apply to a usable control plane, beside the same binaries started as plain processes
	go build -o bin/bench-create ./test/bench/create
	bin/bench-create $(CREATE_FLAGS)

.PHONY: bench
bench: check-machine ## Everything that docs/performance.md has figures of, beside their targets: creation, upgrade, joins, memory, the load balancer, 1,000 tenants, 10,000 workers; three hours
	@go build -o bin/matrix ./hack/matrix && exec bin/matrix run bench

.PHONY: bench-quick
bench-quick: check-machine ## Ratios that tell within five minutes whether a change made something slower; it fails where one is 30 % worse than the stored one
	@go build -o bin/matrix ./hack/matrix && exec bin/matrix run bench-quick

.PHONY: bench-upgrade
bench-upgrade: check-machine ## Upgrades, scaling and an upgrade of the providers in the lab, Cluster API's specs, its contracts and conformance, and their figures
	@go build -o bin/matrix ./hack/matrix && exec bin/matrix run bench-upgrade

.PHONY: bench-install
bench-install: check-machine ## Every command of docs/install.md, releases made twice, workers that install their software, host clusters of each version, joins, and their figures
	@go build -o bin/matrix ./hack/matrix && exec bin/matrix run bench-install

.PHONY: bench-security
bench-security: check-machine ## Attacks by tenants and by users of a namespace, noisy neighbours, fuzzing, the tests of findings, and their figures
	@go build -o bin/matrix ./hack/matrix && exec bin/matrix run bench-security

.PHONY: house
house: check-go ## Lines of the product and of tests, packages that are too large, and where components are named
	@go run ./hack/house

.PHONY: bench-house
bench-house: check-machine ## How the code is built, all breaks, an upgrade of the providers in the lab, and their figures
	@go build -o bin/matrix ./hack/matrix && exec bin/matrix run bench-house

.PHONY: bench-keys
bench-keys: check-machine ## Rotations of keys, a mistake that is taken back, a rendering that is taken again, and their figures
	@go build -o bin/matrix ./hack/matrix && exec bin/matrix run bench-keys

LB_FLAGS ?=
.PHONY: bench-lb
bench-lb: check-machine bin/kok-apiserver-lb ## kok-apiserver-lb beside a direct connection, HAProxy and nginx
	go run ./hack/envtest-assets bin/envtest
	go build -o bin/bench-lb ./test/bench/lb
	bin/bench-lb $(LB_FLAGS)

PEER ?=
PEER_FLAGS ?=
.PHONY: bench-peers
bench-peers: check-machine ## kok-apiserver-lb beside HAProxy and nginx, and control planes beside those of the product that the folder PEER=... describes
	@$(MAKE) bench-lb
	@$(if $(PEER),$(MAKE) lab-up)
	go build -o bin/bench-peers ./test/bench/peers
	bin/bench-peers --peer='$(PEER)' $(PEER_FLAGS)

# It takes a few minutes and 8 GiB of disk.
.PHONY: bench-backup
bench-backup: check-go bin/versitygw ## Time to take and to verify a snapshot of 1 GiB, and what it costs those who use the member meanwhile
	go run ./hack/envtest-assets bin/envtest
	go build -ldflags '$(LDFLAGS)' -o bin/kok-etcd-agent ./controlplane/etcd/agent/cmd/kok-etcd-agent
	$(ENVTEST_ASSETS) KOK_ETCD_AGENT=$(CURDIR)/bin/kok-etcd-agent go test -tags=bench -count=1 -timeout=30m -v ./test/bench/backup

# What stands in for tenants listens at seven addresses for each: more than a few hundred tenants need a higher limit of open files.
TENANTS ?= 1000
SCALE_FLAGS ?=
.PHONY: bench-scale
bench-scale: check-go ## What the control plane manager takes for TENANTS=1000 simulated tenants: time, memory, requests, a restart, an edit
	go run ./hack/envtest-assets bin/envtest
	go build -ldflags '$(LDFLAGS)' -o bin/manager ./controlplane
	go build -o bin/bench-scale ./test/bench/scale
	$(ENVTEST_ASSETS) bin/bench-scale --tenants=$(TENANTS) $(SCALE_FLAGS)

CLUSTERS ?= 1000
MACHINES ?= 10000
.PHONY: bench-scale-bootstrap
bench-scale-bootstrap: check-go ## What the bootstrap manager takes for CLUSTERS=1000 with MACHINES=10000, both simulated: time, memory, requests, a restart
	go run ./hack/envtest-assets bin/envtest
	go build -ldflags '$(LDFLAGS)' -o bin/bootstrap-manager ./bootstrap
	go build -o bin/bench-scale-bootstrap ./test/bench/scale/bootstrap
	$(ENVTEST_ASSETS) bin/bench-scale-bootstrap --clusters=$(CLUSTERS) --machines=$(MACHINES) $(SCALE_FLAGS)

.PHONY: bench-join
bench-join: lab-up bin/kok-software ## Time from the creation of a Machine until its Node is ready: alone, five together, and five that install their software
	go build -o bin/bench-join ./test/bench/join
	bin/bench-join

FOOTPRINT_FLAGS ?=
.PHONY: bench-footprint
bench-footprint: lab-up ## Memory, processor time and writes to disk of idle control planes, by component, and with 5,000 objects
	go build -o bin/bench-footprint ./test/bench/footprint
	bin/bench-footprint $(FOOTPRINT_FLAGS)

##@ Prerequisites

.PHONY: check-go
check-go:
	@command -v go >/dev/null || { echo "Go $(shell sed -n 's/^go //p' go.mod) or newer is needed and no go is in PATH" >&2; exit 1; }
	@go list -m >/dev/null || { echo "this needs Go $(shell sed -n 's/^go //p' go.mod) or newer; found: $$(go version)" >&2; exit 1; }

.PHONY: check-machine
check-machine: check-go ## Check that this machine can run the lab
	@go run ./hack/check-machine

.PHONY: clean
clean: ## Remove bin and out
	rm -rf bin out

# Tools are built from hack/tools/go.mod when they are missing or their versions changed.
bin/controller-gen: hack/tools/go.sum
	cd hack/tools && go build -o ../../$@ sigs.k8s.io/controller-tools/cmd/controller-gen
bin/crd-ref-docs: hack/tools/go.sum
	cd hack/tools && go build -o ../../$@ github.com/elastic/crd-ref-docs
bin/gotestsum: hack/tools/go.sum
	cd hack/tools && go build -o ../../$@ gotest.tools/gotestsum
bin/packages: hack/tools/packages/main.go hack/tools/packages/go.sum
	cd hack/tools/packages && go build -o ../../../$@ .
bin/cosign: hack/tools/cosign/go.sum
	cd hack/tools/cosign && go build -o ../../../$@ github.com/sigstore/cosign/v3/cmd/cosign
bin/versitygw: hack/tools/versitygw/go.sum
	cd hack/tools/versitygw && go build -o ../../../$@ github.com/versity/versitygw/cmd/versitygw
# Of Prometheus' ways to find what it reads, none is needed here.
bin/prometheus bin/promtool: hack/tools/prometheus/go.sum
	cd hack/tools/prometheus && go build -tags=remove_all_sd -o ../../../$@ github.com/prometheus/prometheus/cmd/$(notdir $@)
bin/govulncheck: hack/tools/govulncheck/go.sum
	cd hack/tools/govulncheck && go build -o ../../../$@ golang.org/x/vuln/cmd/govulncheck
bin/licences: hack/tools/licences/main.go hack/tools/licences/main_test.go hack/tools/licences/go.sum
	cd hack/tools/licences && go test . && go build -o ../../../$@ .
bin/golangci-lint: hack/tools/golangci-lint/go.sum
	cd hack/tools/golangci-lint && go build -o ../../../$@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

# Go knows best whether the lab's program is up to date.
.PHONY: bin/lab
bin/lab:
	@go build -o $@ ./test/lab

.PHONY: help
help: ## Show this
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
