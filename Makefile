# Any target works as the first command after a clone: each makes the virtual environment when it is missing or stale.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The rivals have an environment of their own, because some of their libraries change Flask's.
BENCH_VENV := .venv-bench
NODE := node_modules/.bin

# `make check` measures the coverage: PYTEST="coverage run -m pytest".
PYTEST := $(BIN)/python -m pytest

# The programs that a target starts, each with its package in Debian.
NEEDS_lint-api := npm:npm
NEEDS_test-deploy := nginx:nginx nft:nftables visudo:sudo ip:iproute2 systemd-analyze:systemd jq:jq curl:curl
NEEDS_test-browser := npm:npm chromium:chromium
NEEDS_test-message := npm:npm spamassassin:spamassassin
NEEDS_test-redis := redis-server:redis-server
NEEDS_test-mta := postfix:postfix postfix:libsasl2-modules
NEEDS_test-monitoring := promtool:prometheus
NEEDS_test-container := buildah:buildah debootstrap:debootstrap
NEEDS_attack := nginx:nginx
NEEDS_check := $(NEEDS_lint-api) $(NEEDS_test-deploy) $(NEEDS_test-browser) $(NEEDS_test-redis)
NEEDS_test-bounds := $(NEEDS_test-redis)
NEEDS_fuzz := $(NEEDS_test-redis)
NEEDS_reference := $(NEEDS_lint-api)
NEEDS_nightly := $(NEEDS_check) $(NEEDS_test-mta) $(NEEDS_test-monitoring) $(NEEDS_test-message) $(NEEDS_test-container) \
	firefox-esr:firefox-esr opendkim:opendkim opendkim-genkey:opendkim-tools
NEEDS_bench := wrk:wrk

# Debian keeps servers where only root looks for programs.
export PATH := $(PATH):/usr/sbin:/sbin
AS_ROOT := $(if $(filter-out 0,$(shell id -u)),sudo)
# It leaves no file of root's in the folder.
PYTEST_AS_ROOT = $(AS_ROOT) env PYTHONDONTWRITEBYTECODE=1 PYTEST_ADDOPTS="$$PYTEST_ADDOPTS" $(BIN)/python -m pytest -p no:cacheprovider

# $(call missing,TARGETS): a shell's command that names the packages of the programs that are missing.
missing = for program in $(foreach target,$(1),$(NEEDS_$(target))); do \
	command -v $${program%:*} >/dev/null || echo $${program\#*:}; done | sort -u | paste -s -d " "

# The first prerequisite of each target that starts programs: nothing is downloaded before.
need-%:
	@missing=$$($(call missing,$*)); test -z "$$missing" || { \
		echo "'make $*' needs Debian's packages $$missing: 'make deps FOR=$*' installs them" >&2; exit 1; }

# $(call fetch,PROGRAM,COMMAND): downloads. Without a network the program writes many lines, and one says more.
UNREACHABLE := Max retries exceeded|No matching distribution|code (ECONN|ENETUNREACH|ENOTFOUND|EAI_AGAIN|ETIMEDOUT)
fetch = mkdir -p build && $(2) >build/$(1).log 2>&1 || { \
	if grep -Eq '$(UNREACHABLE)' build/$(1).log; \
	then echo "$(1) cannot reach its index, or the index lacks a package: is the network there? See build/$(1).log"; \
	else cat build/$(1).log; fi >&2; exit 1; }

# $(call libraries,ENVIRONMENT,FILE): installs the libraries of a lock file.
libraries = echo "Installing the libraries of $(2) into $(1)" && $(call fetch,pip,$(1)/bin/python -m pip install \
	--quiet --disable-pip-version-check --require-hashes -r $(2))

.DEFAULT_GOAL := help
.PHONY: help run demo install deps test test-deploy test-browser test-message test-redis test-mta test-monitoring test-container test-clients test-bounds attack lint lint-api format check nightly fuzz bench docs reference lock clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: $(VENV)/.run ## Start the service on 127.0.0.1:8000 (settings: README.md)
	$(BIN)/gunicorn

install: $(VENV)/.run ## Install only the libraries that the service needs to run (docs/deploy.md)

demo: $(VENV)/.run ## Start the service and, on 127.0.0.1:8080, a form that posts to it and an inbox of what arrived
	@$(BIN)/python -m examples.demo

FOR := check test-mta test-monitoring attack
deps: ## Install what 'make check' and CI need besides Python, or another target: make deps FOR=nightly
	@$(foreach target,$(FOR),$(if $(NEEDS_$(target)),,$(error 'make $(target)' needs no program)))
	@missing=$$($(call missing,$(FOR))); test -z "$$missing" || { \
		echo "Installing Debian's packages $$missing; none of their services is started"; \
		$(AS_ROOT) .ci/packages $$missing; }

test: $(VENV)/.dev ## Run the tests that need only Python, or some: make test ARGS="tests/api -k captcha"
	$(PYTEST) $(ARGS)

test-deploy: need-test-deploy $(VENV)/.dev ## Test deploy/ with the real nginx
	$(BIN)/python -m pytest --numprocesses=2 --dist=loadfile tests/deploy

test-browser: need-test-browser $(VENV)/.dev node_modules/.package-lock.json ## Try the example form and the reference in Chromium (pictures: build/screenshots)
	$(BIN)/python -m pytest --numprocesses=3 tests/browser

test-message: need-test-message $(VENV)/.dev node_modules/.package-lock.json ## Let another program and a spam filter read the sales team's message
	$(BIN)/python -m pytest --numprocesses=2 --dist=loadfile tests/message

test-redis: need-test-redis $(VENV)/.dev ## Test the limits that processes share with a real redis-server
	$(PYTEST) --numprocesses=2 --dist=loadscope tests/redis

# A Postfix that is installed already is not touched. Its master runs as root alone.
test-mta: need-test-mta $(VENV)/.dev ## Hand messages over to a real Postfix, on loopback ports of its own (as root)
	$(PYTEST_AS_ROOT) --numprocesses=2 tests/mta

test-monitoring: need-test-monitoring $(VENV)/.dev ## Test deploy/prometheus with promtool
	$(BIN)/python -m pytest --numprocesses=2 tests/monitoring

# Only root makes a Debian. The two tools bring the schemas; they are large, so no lock file has them.
test-container: need-test-container $(VENV)/.dev ## Build the image on a bare Debian and run it; check compose.yaml and the manifest (as root)
	$(BIN)/uvx --quiet check-jsonschema@0.39.0 --builtin-schema vendor.compose-spec compose.yaml
	$(BIN)/uvx --quiet kubernetes-validate@1.37.0 --strict deploy/kubernetes.yaml
	$(PYTEST_AS_ROOT) tests/container

test-clients: $(VENV)/.dev ## Call the service with a client made from the document, and with schemathesis
	$(BIN)/python -m pytest tests/clients

# Of each library that setup.cfg names for the service, the lowest release that it allows or the newest that there is. The
# tools of the tests stay those of the lock file.
BOUNDS := lowest newest
test-bounds: need-test-bounds $(BOUNDS:%=.venv-%/.bounds) ## Test with the lowest and with the newest libraries that setup.cfg allows (10 minutes)
	@for bound in $(BOUNDS); do echo "With the $$bound libraries:"; \
		$(MAKE) --no-print-directory VENV=.venv-$$bound test $(if $(ARGS),,test-redis) || exit 1; done

RESOLUTION_lowest := lowest-direct
RESOLUTION_newest := highest
.venv-%/.bounds: setup.cfg requirements-dev.txt | $(VENV)/.dev
	@$(MAKE) --no-print-directory VENV=.venv-$* .venv-$*/.dev
	@echo "Installing the $* libraries of setup.cfg into .venv-$*"
	@$(call fetch,uv,$(BIN)/uv pip compile --quiet --resolution $(RESOLUTION_$*) --extra metrics --extra redis setup.cfg -o build/$*.txt \
		&& $(BIN)/uv pip install --quiet --python $(@D) -r build/$*.txt)
	@touch $@

attack: need-attack $(VENV)/.dev ## Attack the service as it is shipped
	$(BIN)/python -m pytest tests/attack

lint: $(VENV)/.dev ## Run the linters and the type checker
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# With `typeRoots` the types of a browser count: a package brings those of Node.js, whose timers are objects.
TSC_FLAGS := --strict --noEmit --target es2022 --module esnext --moduleResolution bundler
lint-api: need-lint-api $(VENV)/.dev node_modules/.package-lock.json ## Run the linters of the published document and of the example form (needs Node.js)
	$(BIN)/openapi-spec-validator static/openapi.json
	$(NODE)/spectral lint --fail-severity=hint static/openapi.json
	REDOCLY_SUPPRESS_UPDATE_NOTICE=true $(NODE)/redocly lint static/openapi.json
	$(NODE)/openapi-typescript static/openapi.json --output node_modules/.cache/openapi.ts
	$(NODE)/tsc $(TSC_FLAGS) --skipLibCheck tests/clients/client.ts
	$(NODE)/tsc $(TSC_FLAGS) --typeRoots static --lib es2022,dom,dom.iterable --checkJs examples/contact-form/contact-form.js tests/clients/website.ts

format: $(VENV)/.dev ## Format the code and the document, and correct simple mistakes
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .
	$(BIN)/python -m tools.layout
	$(BIN)/ruff check .

# The tests with a real redis-server alone run most of this module, so it has to reach its coverage by itself.
SHARED_LIMITS := app/ratelimit/shared.py
# The longest come early, so that none of them is left to run alone.
CHECKS := lint test-browser test-deploy test test-redis test-clients lint-api
JOBS := 2

check: need-check $(VENV)/.dev node_modules/.package-lock.json ## Run the linters and the tests that every change must pass, side by side, and report the coverage
	$(BIN)/coverage erase
	@echo "$(JOBS) at a time, each shown when it has ended: $(CHECKS)"
	@$(MAKE) --jobs=$(JOBS) --keep-going --output-sync=target $(CHECKS) PYTEST="$(BIN)/coverage run -m pytest"
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report --omit=$(SHARED_LIMITS)
	$(BIN)/coverage report --include=$(SHARED_LIMITS)

# The tests with the mark nightly: requests under load, Firefox, DKIM, a real Prometheus, more attacks.
MARKED := test-deploy test-browser test-mta test-monitoring attack
nightly: need-nightly $(VENV)/.dev node_modules/.package-lock.json ## Run what takes too long for each change (an hour)
	PYTEST_ADDOPTS="-m nightly" $(MAKE) --keep-going $(MARKED); status=$$?; \
	$(MAKE) --keep-going test-message test-container test-bounds fuzz && exit $$status

PROPERTIES := tests/fuzz tests/clients/test_schemathesis.py tests/ratelimit tests/redis/test_shared.py tests/test_mailbox.py
fuzz: need-fuzz $(VENV)/.dev ## Try tens of thousands of hostile requests, and new cases of all properties (half an hour)
	FUZZ_CASES=8000 $(BIN)/python -m pytest --numprocesses=2 --hypothesis-show-statistics $(PROPERTIES)

bench: need-bench $(BENCH_VENV)/.bench ## Measure the service beside others and rewrite docs/performance.md (3 minutes)
	$(BENCH_VENV)/bin/python -m bench

docs: $(VENV)/.dev ## Write what the code knows into the document, the pages and deploy/
	$(BIN)/python -m tools.docs

reference: need-reference $(VENV)/.dev node_modules/.package-lock.json ## Build build/reference.html (BASE_URL=https://...: docs/reference.md)
	$(BIN)/python -m docs.build_reference '$(BASE_URL)'

lock: $(VENV)/.dev ## Renew the lock files from setup.cfg
	$(BIN)/uv pip compile $(LOCK_FLAGS) setup.cfg -o requirements.txt
	$(BIN)/uv pip compile $(LOCK_FLAGS) --extra redis setup.cfg -o requirements-redis.txt
	$(BIN)/uv pip compile $(LOCK_FLAGS) --extra metrics setup.cfg -o requirements-metrics.txt
	$(BIN)/uv pip compile $(LOCK_FLAGS) --extra dev --extra metrics --extra redis setup.cfg -o requirements-dev.txt
	$(BIN)/uv pip compile $(LOCK_FLAGS) --extra bench --constraint requirements-dev.txt setup.cfg -o requirements-bench.txt

LOCK_FLAGS := --quiet --universal --python-version 3.11 --generate-hashes --upgrade --custom-compile-command "make lock"

clean: ## Remove everything that make has made, but never the mail
	rm -rf $(VENV) $(BENCH_VENV) .venv-lowest .venv-newest node_modules build .coverage .coverage.* .mypy_cache .pytest_cache .ruff_cache .hypothesis

node_modules/.package-lock.json: package-lock.json
	@echo "Downloading the packages of package-lock.json with npm: 'make reference', 'make lint-api', 'make test-browser' and 'make test-message' need them"
	@$(call fetch,npm,npm ci $(NPM_FLAGS))
	@touch $@

NPM_FLAGS := --ignore-scripts --no-audit --no-fund

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=/path/to/it")'
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
		echo "$(PYTHON) cannot make a virtual environment: please install its package venv (Debian: python3-venv)" >&2; exit 1; }

$(VENV)/.run: requirements.txt | $(VENV)/bin/python
	@$(call libraries,$(VENV),$<)
	@touch $@

$(VENV)/.dev: requirements-dev.txt | $(VENV)/bin/python
	@$(call libraries,$(VENV),$<)
	@touch $@ $(VENV)/.run

$(BENCH_VENV)/.bench: requirements-bench.txt | $(VENV)/bin/python
	$(BIN)/python -m venv $(BENCH_VENV)
	@$(call libraries,$(BENCH_VENV),$<)
	@touch $@
