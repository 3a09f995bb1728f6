# Each target works in a new clone or names what it lacks: it makes the virtual environment when that is missing or stale.
PYTHON ?= python3
VENV := .venv
# The scripts in bin/ name the folder in which they were installed: python -m works in a clone that was moved, too.
RUN := $(VENV)/bin/python -m
NPM := tools/node_modules/.package-lock.json
# Debian keeps servers where only root looks for programs.
export PATH := $(PATH):/usr/sbin:/sbin
AS_ROOT := $(if $(filter-out 0,$(shell id -u)),sudo --preserve-env=CI) env PYTHONDONTWRITEBYTECODE=1 PYTEST_ADDOPTS="$$PYTEST_ADDOPTS -p no:cacheprovider"
help: ## Show this list
	@awk -F ':.*## ' '/^##@/ {print substr($$0, 5)} /^[a-z-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ Use
demo: $(VENV)/.run ## Start the service and, on 127.0.0.1:8080, a form that posts to it and an inbox of what arrived
	@$(RUN) tools.demo
run: $(VENV)/.run ## Start the service on 127.0.0.1:8000 (docs/settings.md)
	$(RUN) gunicorn
install: $(VENV)/.run ## Install only the libraries that the service needs to run (deploy/release.sh)
reference: need-reference $(VENV)/.dev $(NPM) ## Build build/reference.html (BASE_URL=https://...: docs/reference.md)
	$(RUN) tools.reference '$(BASE_URL)'

##@ Develop
deps: ## Install what CI needs besides Python (for another target: make deps FOR=nightly)
	@tools/programs install $(or $(FOR),check test-attack test-monitoring test-mta)
test: $(VENV)/.dev ## Run the tests that need only Python, or some: make test ARGS="tests/api -k captcha"
	$(RUN) $(or $(MEASURED),pytest) $(ARGS)
format: $(VENV)/.dev ## Format the code and the document, and correct simple mistakes
	$(RUN) ruff check --fix-only .
	$(RUN) ruff format .
	$(RUN) tools.layout
	$(RUN) ruff check .
docs: $(VENV)/.dev ## Write what the code knows into the document, the pages and deploy/
	$(RUN) tools.docs
pictures: need-test-browser $(VENV)/.dev $(NPM) ## Renew the pictures of README
	$(RUN) pytest tests/browser/test_demo.py -k readme
	cp build/screenshots/form.png build/screenshots/message.png docs/pictures
COMPILE := $(RUN) uv pip compile -q --universal --python-version 3.11 --generate-hashes --upgrade --custom-compile-command "make lock"
lock: $(VENV)/.dev ## Renew the lock files from setup.cfg
	$(COMPILE) setup.cfg -o requirements/run.txt
	$(COMPILE) setup.cfg --extra redis -o requirements/redis.txt
	$(COMPILE) setup.cfg --extra metrics -o requirements/metrics.txt
	$(COMPILE) setup.cfg --extra dev -o requirements/dev.txt
	$(COMPILE) setup.cfg --extra bench --constraint requirements/dev.txt -o tools/bench/requirements.txt
clean: ## Remove the environments, the caches and build/, but never the mail
	rm -rf .venv .venv-* node_modules tools/node_modules build .coverage .coverage.* .mypy_cache .pytest_cache .ruff_cache .hypothesis

##@ Check
# The longest come early. Redis' tests alone run most of shared.py, so it has to reach its coverage by itself.
CHECKS := lint test-browser test-deploy test test-server test-redis test-clients lint-api
check: need-check $(VENV)/.dev $(NPM) ## Run the linters and tests that every change must pass, two at a time, and report the coverage
	$(RUN) coverage erase
	@$(MAKE) --jobs=$(or $(JOBS),2) --keep-going --output-sync=target $(CHECKS) MEASURED="coverage run -m pytest"
	$(RUN) coverage combine --quiet && $(RUN) coverage report && $(RUN) coverage report --include=app/ratelimit/shared.py
nightly: need-nightly $(VENV)/.dev $(NPM) ## Run what takes too long for each change: more load, Firefox, WebKit, DKIM, Prometheus (20 minutes)
	PYTEST_ADDOPTS="-m nightly --timeout=1800" $(MAKE) --keep-going test test-deploy test-browser test-mta test-monitoring test-attack; status=$$?; \
	$(MAKE) --keep-going test-message test-container test-bounds fuzz && exit $$status
lint: $(VENV)/.dev ## Run the linters and the type checker
	$(RUN) ruff check . && $(RUN) ruff format --check . && $(RUN) mypy
lint-api: need-lint-api $(VENV)/.dev $(NPM) ## Run the linters of the published document and of the form
	$(RUN) openapi_spec_validator static/openapi.json
	npm --prefix tools run lint
test-attack: ## Attack the service as it is shipped
test-browser: $(NPM) ## Try the form, the demo and the reference in Chromium (pictures: build/screenshots)
test-clients: ## Call the service with a client made from the document, and with schemathesis
test-deploy: ## Test deploy/ with the real nginx
test-message: $(NPM) ## Let another program and a spam filter read the sales team's message
test-monitoring: ## Test deploy/prometheus with promtool
test-mta: ## Hand messages over to a real Postfix, on loopback ports of its own (as root)
PARTS := attack browser clients deploy message monitoring mta
$(PARTS:%=test-%): test-%: need-test-% $(VENV)/.dev
	$(if $(filter mta,$*),$(AS_ROOT)) $(RUN) pytest tests/$*
test-redis: ## Test the limits that processes share with a real redis-server
test-server: ## Start the service with the real gunicorn, the demo and make, as their users do
test-redis test-server: test-%: need-test-% $(VENV)/.dev
	$(RUN) $(or $(MEASURED),pytest) tests/$*
test-container: need-test-container $(VENV)/.dev ## Build the image on a bare Debian and run it; check compose.yaml and the manifest (as root)
	$(RUN) uv tool run --quiet check-jsonschema@0.39.0 --builtin-schema vendor.compose-spec compose.yaml
	$(RUN) uv tool run --quiet kubernetes-validate@1.37.0 --strict deploy/kubernetes.yaml
	$(AS_ROOT) $(RUN) pytest --timeout=900 tests/container
# The tools of the tests stay those of the lock file.
test-bounds: need-test-bounds $(VENV)/.dev ## Test with the lowest and with the newest libraries that setup.cfg allows (5 minutes)
	for bound in lowest-direct highest; do $(MAKE) VENV=.venv-$$bound .venv-$$bound/.dev && \
		$(RUN) uv pip compile -q --upgrade --resolution $$bound --extra metrics --extra redis setup.cfg -o .venv-$$bound/bound.txt && \
		$(RUN) uv pip install -q --python .venv-$$bound -r .venv-$$bound/bound.txt && \
		$(MAKE) VENV=.venv-$$bound test $(if $(ARGS),,test-server test-redis) || exit 1; done
fuzz: need-fuzz $(VENV)/.dev ## Try tens of thousands of hostile requests, and new cases of all properties (5 minutes)
	FUZZ_CASES=8000 $(RUN) pytest --timeout=1800 --hypothesis-show-statistics tests/fuzz tests/clients tests/ratelimit tests/redis tests/test_mailbox.py
bench: need-bench $(VENV)/.dev ## Measure the service beside others and rewrite docs/performance.md (3 minutes)
	$(RUN) uv venv -q --clear --python $(VENV)/bin/python .venv-bench && $(RUN) uv pip sync -q --require-hashes --python .venv-bench tools/bench/requirements.txt
	.venv-bench/bin/python -m tools.bench

# Missing programs are named before anything is downloaded.
need-%:
	@tools/programs check $*
CAN_MAKE_ONE = import importlib.util as i, sys; sys.exit( \
	sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=/path/to/it" or \
	not i.find_spec("ensurepip") and "Please install Debian\047s package python3-venv")
# False once Debian has another Python, or uv or pip has installed the project with other versions.
IS_OURS := { $(VENV)/bin/python -c 'import pip' && ! ls -d $(VENV)/lib/python3*/site-packages/public_web_interface-*; } >/dev/null 2>&1
STALE := $(shell $(IS_OURS) || echo yes)
$(VENV)/.run: requirements/run.txt $(if $(STALE),anew)
$(VENV)/.dev: requirements/dev.txt $(if $(STALE),anew)
$(VENV)/.run $(VENV)/.dev:
	@mkdir -p $(@D) 2>/dev/null && test -w $(@D) || { echo "$(abspath $(@D)) cannot be written: clone into a folder of your own" >&2; exit 1; }
	@$(IS_OURS) || { $(PYTHON) -c '$(CAN_MAKE_ONE)' && $(PYTHON) -m venv $(@D) --clear; }
	@echo "Installing the libraries of $< into $(@D)"
	@said=$$($(@D)/bin/python -m pip install -q --retries 2 --disable-pip-version-check --require-hashes -r $< 2>&1) || \
		{ echo "The libraries cannot be installed (is the network there?) $$(echo "$$said" | grep -m 1 ^ERROR)" >&2; exit 1; }
	@touch $@ $(@D)/.run
$(NPM): tools/package-lock.json
	npm --prefix tools ci --loglevel=error --ignore-scripts --no-audit --no-fund
.PHONY: anew help demo run install reference deps test format docs pictures lock clean check nightly lint lint-api test-container test-redis test-server test-bounds fuzz bench $(PARTS:%=test-%)
