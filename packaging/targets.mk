# Targets for packages, image and release.
PACKAGING = VERSION='$(VERSION)' COMMIT='$(COMMIT)' LDFLAGS='$(LDFLAGS)' NFPM=$(TOOLS)/nfpm-$(NFPM)

.PHONY: package
package: setup-package $(TOOLS)/nfpm-$(NFPM) ## deb, rpm and tarball for amd64 and arm64, with checksums, into dist/
	rm -rf dist
	$(PACKAGING) scripts/package.sh dist

.PHONY: reproducible
reproducible: setup-package $(TOOLS)/nfpm-$(NFPM) ## build the packages of this commit twice and compare them; ARCHES=amd64 for one
	$(PACKAGING) scripts/reproducible.sh $(ARCHES)

.PHONY: try-packages
try-packages: setup-test package $(TOOLS)/telegraf-$(TELEGRAF) ## install, upgrade and remove the packages, in clean systems and in the lab
	$(PACKAGING) scripts/try-packages.sh dist
	RDMA_EVENTS_REQUIRE=package go test -count=1 -timeout 30m -tags lab -run TestThePackage -v ./tests/lab

# IMAGE is the name of the image. CONTAINER_BUILD is the command to build it: docker build, podman build, buildah build.
IMAGE ?= rdma-events
CONTAINER_BUILD ?= docker build
.PHONY: image
image: ## Telegraf and the plugin in a container image: IMAGE=registry.example.com/rdma-events:v1
	$(CONTAINER_BUILD) -f packaging/container/Dockerfile --build-arg VERSION='$(VERSION)' --build-arg COMMIT='$(COMMIT)' \
	  --build-arg TELEGRAF_VERSION='$(TELEGRAF)' -t '$(IMAGE)' .

.PHONY: try-image
try-image: setup-test build ## build the image without a registry, and run it as the DaemonSet does, in the lab
	@scripts/packages.sh image
	VERSION='$(VERSION)' COMMIT='$(COMMIT)' TELEGRAF='$(TELEGRAF)' scripts/try-image.sh build/image
	RDMA_EVENTS_REQUIRE=image go test -count=1 -timeout 30m -tags lab -run TestTheImage -v ./tests/lab

# KEY is the file of the SSH key that signs a release, or the public key of one that an agent holds.
.PHONY: release
release: $(TOOLS)/helm-$(HELM) ## the files of a version, tried, into dist/, signed with KEY=FILE; wants an annotated tag, its heading in CHANGELOG.md and make test-full's logs
	@scripts/release.sh allowed
	@scripts/released.sh
	@scripts/test-full.sh passed
	$(MAKE) try-packages try-image
	scripts/release.sh fill dist
	$(if $(KEY),scripts/release.sh sign dist '$(KEY)',@echo "dist is not signed: sign it with scripts/release.sh sign dist KEY")
