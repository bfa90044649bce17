# `make` lists the targets. Everything runs in the project's own virtual environment, .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
LOWEST := .venv-lowest
LOWEST_PYTHON ?= python3.11
PIP := -m pip install --quiet --disable-pip-version-check
ONE_THREAD := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1
PYTEST := $(ONE_THREAD) $(BIN)/python -m pytest

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow test-lowest lint format bench completions clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "dpbudget needs Python 3.11 or newer; set PYTHON=")'
	@echo "Setting up $(VENV), once; it takes about half a minute."
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.package: $(BIN)/python pyproject.toml
	$(BIN)/python $(PIP) --editable .
	@touch $@

$(STAMP): $(VENV)/.package
	$(BIN)/python $(PIP) --editable '.[dev]'
	@touch $@

demo: $(VENV)/.package ## set everything up and show the main job
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh examples/demo.sh

test: lint ## set everything up and run the tests, lint and type checks
	$(PYTEST) -n 2

test-slow: $(STAMP) ## the long references: thousands of configurations against independent truth
	HYPOTHESIS_PROFILE=explore $(PYTEST) -n 2 -m slow

test-lowest: ## the tests with the lowest Python and the lowest versions that pyproject.toml allows
	$(LOWEST_PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python tests/lowest.py > $(LOWEST)/constraints.txt
	$(LOWEST)/bin/python $(PIP) --constraint $(LOWEST)/constraints.txt --editable '.[test]'
	$(ONE_THREAD) $(LOWEST)/bin/python -m pytest -n 2

lint: $(STAMP) ## ruff and mypy --strict
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(STAMP) ## let ruff lay out the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: ## measure against the peers, in an environment of their own
	sh benchmarks/run.sh

completions: $(VENV)/.package ## write the shell completion scripts and docs/cli.md from the command line
	$(BIN)/python completions/generate.py

clean: ## remove the virtual environments and caches
	rm -rf $(VENV) $(LOWEST) .venv-bench .pytest_cache .mypy_cache .ruff_cache
