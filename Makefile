# Any target works as the first command after a clone: each builds the virtual environment when it is missing or stale.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help run test lint format check lock clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: $(VENV)/.run ## Start the service on 127.0.0.1:8000 (settings: README.md)
	$(BIN)/gunicorn

test: $(VENV)/.dev ## Run all tests with their coverage
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

lint: $(VENV)/.dev ## Run the linters and the type checker
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/openapi-spec-validator static/openapi.json

format: $(VENV)/.dev ## Format the code and mend what can be mended
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

check: lint test ## All that CI runs

lock: $(VENV)/.dev ## Renew the lock files from setup.cfg
	$(BIN)/uv pip compile $(LOCK_FLAGS) setup.cfg -o requirements.txt
	$(BIN)/uv pip compile $(LOCK_FLAGS) --extra dev setup.cfg -o requirements-dev.txt

LOCK_FLAGS := --quiet --universal --python-version 3.11 --generate-hashes --upgrade --custom-compile-command "make lock"

clean: ## Remove what make has made, but never the mail
	rm -rf $(VENV) .coverage .coverage.* .mypy_cache .pytest_cache .ruff_cache .hypothesis

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=/path/to/it")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: requirements.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.txt
	@touch $@

$(VENV)/.dev: requirements-dev.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.txt
	@touch $@ $(VENV)/.run
