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
DEPLOY := nginx:nginx nft:nftables visudo:sudo ip:iproute2 systemd-analyze:systemd jq:jq curl:curl
MTA := postfix:postfix postfix:libsasl2-modules
BROWSER := chromium:chromium
MESSAGE := spamassassin:spamassassin
NIGHTLY := firefox-esr:firefox-esr opendkim:opendkim opendkim-genkey:opendkim-tools
REDIS := redis-server:redis-server
ATTACK := nginx:nginx $(REDIS)
BENCH := wrk:wrk nginx:nginx $(REDIS) $(notdir $(firstword $(wildcard /usr/sbin/php-fpm*) php-fpm)):php-fpm

# $(call need,PROGRAMS,OPTIONS): installs the packages of those that are missing. It asks nothing: ANSWERS are for
# debconf. A package that would remove another one, such as a second mail server, is not installed.
ANSWERS :=
AS_ROOT := $(if $(filter-out 0,$(shell id -u)),sudo)
need = missing=; for program in $(1); do \
		command -v $${program%:*} >/dev/null || missing="$$missing $${program\#*:}"; done; \
	test -z "$$missing" || { \
		echo "Installing Debian's packages$$missing, which 'make $@' needs"; \
		$(AS_ROOT) apt-get update -qq && echo "$(ANSWERS)" | $(AS_ROOT) debconf-set-selections && \
		$(AS_ROOT) env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-remove $(2) $$missing; } \
	|| { echo "Debian's packages$$missing could not be installed: please install them" >&2; exit 1; }

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
.PHONY: help run demo install test test-deploy test-browser test-message test-redis test-mta test-monitoring test-clients test-bounds attack lint lint-api format check nightly fuzz bench docs lock clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: $(VENV)/.run ## Start the service on 127.0.0.1:8000 (settings: README.md)
	$(BIN)/gunicorn

install: $(VENV)/.run ## Install only the libraries that the service needs to run (docs/deploy.md)

demo: $(VENV)/.run ## Start the service and, on 127.0.0.1:8080, the example form that posts to it
	@$(BIN)/python -m examples.demo

test: $(VENV)/.dev ## Run the tests that need only Python, or some: make test ARGS="tests/contact -k reply"
	$(PYTEST) $(ARGS)

test-deploy: $(VENV)/.dev ## Test deploy/ with the real nginx
	@$(call need,$(DEPLOY))
	$(BIN)/python -m pytest --numprocesses=2 --dist=loadfile tests/deploy

test-browser: $(VENV)/.dev node_modules/.package-lock.json ## Try the example form and the reference in Chromium (pictures: build/screenshots)
	@$(call need,$(BROWSER))
	$(BIN)/python -m pytest --numprocesses=3 tests/browser

# What SpamAssassin recommends brings its daemon, which Debian would start.
test-message: $(VENV)/.dev node_modules/.package-lock.json ## Let another program and a spam filter read the sales team's message
	@$(call need,$(MESSAGE),--no-install-recommends)
	$(BIN)/python -m pytest --numprocesses=2 --dist=loadfile tests/message

test-redis: $(VENV)/.dev ## Test the limits that processes share with a real redis-server
	@$(call need,$(REDIS))
	$(PYTEST) --numprocesses=2 --dist=loadscope tests/redis

# Without an answer, Debian would start a Postfix that listens on port 25 of all addresses. One that has no configuration
# is not started. Where Postfix is installed already, nothing of it is touched. Its master runs as root alone.
test-mta: ANSWERS := postfix postfix/main_mailer_type select No configuration
test-mta: $(VENV)/.dev ## Hand messages over to a real Postfix, on loopback ports of its own (as root)
	@$(call need,$(MTA))
	$(AS_ROOT) env PYTHONDONTWRITEBYTECODE=1 PYTEST_ADDOPTS="$$PYTEST_ADDOPTS" $(BIN)/python -m pytest -p no:cacheprovider --numprocesses=2 tests/mta

# Debian's package would start a Prometheus that listens on all addresses. So it is unpacked and not installed.
PROMETHEUS := build/prometheus/usr/bin
# root would be warned that apt's own user cannot write here.
DOWNLOAD := apt-get download -qq -o APT::Sandbox::User=root prometheus
prometheus = command -v prometheus >/dev/null && command -v promtool >/dev/null || { \
		echo "Unpacking Debian's package prometheus in build/prometheus, which 'make $@' needs"; \
		mkdir -p build && cd build && rm -f prometheus_*.deb && \
		{ $(DOWNLOAD) || { $(AS_ROOT) apt-get update -qq && $(DOWNLOAD); }; } && \
		dpkg-deb -x prometheus_*.deb prometheus && rm prometheus_*.deb; } \
	|| { echo "Debian's package prometheus could not be unpacked: please put prometheus and promtool on PATH" >&2; exit 1; }
test-monitoring: export PATH := $(PATH):$(CURDIR)/$(PROMETHEUS)

test-monitoring: $(VENV)/.dev ## Test deploy/prometheus with promtool
	@$(prometheus)
	$(BIN)/python -m pytest --numprocesses=2 tests/monitoring

test-clients: $(VENV)/.dev ## Generate a client from the document, and call the service with it
	$(BIN)/python -m pytest tests/clients

# Of each library that setup.cfg names for the service, the lowest release that it allows or the newest that there is. The
# tools of the tests stay those of the lock file.
BOUNDS := lowest newest
test-bounds: $(BOUNDS:%=.venv-%/.bounds) ## Test with the lowest and with the newest libraries that setup.cfg allows (10 minutes)
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

attack: $(VENV)/.dev ## Attack the quotas and the memory of the service as it is shipped
	@$(call need,$(ATTACK))
	$(BIN)/python -m pytest tests/attack

lint: $(VENV)/.dev ## Run the linters and the type checker
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# With `typeRoots` the types of a browser count: a package brings those of Node.js, whose timers are objects.
TSC_FLAGS := --strict --noEmit --target es2022 --module esnext --moduleResolution bundler
lint-api: $(VENV)/.dev node_modules/.package-lock.json ## Run the linters of the published document and of the example form (needs Node.js)
	$(BIN)/openapi-spec-validator static/openapi.json
	$(NODE)/spectral lint --fail-severity=hint static/openapi.json
	REDOCLY_SUPPRESS_UPDATE_NOTICE=true $(NODE)/redocly lint static/openapi.json
	$(NODE)/openapi-typescript static/openapi.json --output node_modules/.cache/openapi.ts
	$(NODE)/tsc $(TSC_FLAGS) --skipLibCheck tests/clients/client.ts
	$(NODE)/tsc $(TSC_FLAGS) --typeRoots static --lib es2022,dom,dom.iterable --checkJs examples/contact-form/contact-form.js tests/clients/website.ts

format: $(VENV)/.dev ## Format the code and the document, and correct simple mistakes
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .
	$(BIN)/python -m tests.contract.layout
	$(BIN)/ruff check .

# The tests with a real redis-server alone run most of this module, so it has to reach its coverage by itself.
SHARED_LIMITS := app/ratelimit/shared.py
# The longest come early, so that none of them is left to run alone.
CHECKS := lint test-browser test-deploy test test-redis lint-api
JOBS := 2

check: $(VENV)/.dev node_modules/.package-lock.json ## Run the linters and the tests that every change must pass, side by side, and report the coverage
	@$(call need,$(DEPLOY) $(BROWSER) $(REDIS))
	$(BIN)/coverage erase
	@echo "$(JOBS) at a time, each shown when it has ended: $(CHECKS)"
	@$(MAKE) --jobs=$(JOBS) --output-sync=target $(CHECKS) PYTEST="$(BIN)/coverage run -m pytest"
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report --omit=$(SHARED_LIMITS)
	$(BIN)/coverage report --include=$(SHARED_LIMITS)

# The tests with the mark nightly: kills at every step, requests under load, Firefox, DKIM, a real Prometheus, the other
# attacks. Debian starts opendkim on a socket in /run, which no mail server uses by itself. It opens no port.
MARKED := test test-deploy test-browser test-mta test-monitoring attack
nightly: $(VENV)/.dev node_modules/.package-lock.json ## Run what takes too long for each change (an hour)
	@$(call need,$(NIGHTLY))
	KILLS=50 PYTEST_ADDOPTS="-m nightly" $(MAKE) --keep-going $(MARKED); status=$$?; \
	$(MAKE) --keep-going test-clients test-message test-bounds fuzz && exit $$status

PROPERTIES := tests/fuzz tests/ratelimit tests/redis/test_shared.py tests/contact/test_composer.py tests/test_mailbox.py
fuzz: $(VENV)/.dev ## Try tens of thousands of hostile requests, and new cases of all properties (half an hour)
	@$(call need,$(REDIS))
	FUZZ_CASES=8000 $(BIN)/python -m pytest --numprocesses=2 --hypothesis-show-statistics $(PROPERTIES)

bench: $(BENCH_VENV)/.bench ## Measure the service beside others and rewrite docs/performance.md (4 minutes)
	@$(call need,$(BENCH))
	$(BENCH_VENV)/bin/python -m bench

docs: $(VENV)/.dev node_modules/.package-lock.json ## Write the defaults of the settings, draw docs/request.svg, and build build/reference.html (BASE_URL=https://...: docs/reference.md)
	$(BIN)/python -m docs.write_settings
	$(BIN)/python -m docs.draw_request
	$(BIN)/python -m docs.build_reference '$(BASE_URL)'

lock: $(VENV)/.dev ## Renew the lock files from setup.cfg
	$(BIN)/uv pip compile $(LOCK_FLAGS) setup.cfg -o requirements.txt
	$(BIN)/uv pip compile $(LOCK_FLAGS) --extra redis setup.cfg -o requirements-redis.txt
	$(BIN)/uv pip compile $(LOCK_FLAGS) --extra metrics setup.cfg -o requirements-metrics.txt
	$(BIN)/uv pip compile $(LOCK_FLAGS) --extra dev --extra metrics --extra redis setup.cfg -o requirements-dev.txt
	$(BIN)/uv pip compile $(LOCK_FLAGS) --extra bench --extra metrics --extra redis --constraint requirements-dev.txt setup.cfg -o requirements-bench.txt

LOCK_FLAGS := --quiet --universal --python-version 3.11 --generate-hashes --upgrade --custom-compile-command "make lock"

clean: ## Remove everything that make has made, but never the mail
	rm -rf $(VENV) $(BENCH_VENV) .venv-lowest .venv-newest node_modules build .coverage .coverage.* .mypy_cache .pytest_cache .ruff_cache .hypothesis

node_modules/.package-lock.json: package-lock.json
	@echo "Downloading the packages of package-lock.json with npm: 'make docs', 'make lint-api', 'make test-browser' and 'make test-message' need them"
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
