# The two commands of the README are `make demo` and `make test`. Each target is a short name for a script or a
# program that can be started by itself; a step that fails stops what follows.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:
MAKEFLAGS += --no-print-directory

.PHONY: help setup demo test test-long check e2e lab-up lab-down dist lock docs format clean

help: ## List the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | while IFS='|' read -r name text; do printf '  make %-9s %s\n' "$$name" "$$text"; done

setup: ## Install what is missing: Debian packages and .venv (under 1 s when nothing is)
	@scripts/bootstrap

demo: setup ## Start the lab, bring its bare nodes in with site.yml, validate them; leaves the lab up
	@scripts/demo

test: setup ## Everything that checks the project: `make check`, tests/integration, and the lab end to end
	@scripts/test

test-long: setup ## What takes too long for `make test`; writes docs/evidence/long-tests.md (hours)
	@scripts/test-long

check: setup ## Format, lint, types and unit tests, in under 100 s
	@scripts/check

e2e: setup ## The end-to-end tests alone
	@scripts/e2e

lab-up: setup ## Start the lab: 1 control plane, 2 GPU nodes with 4 simulated H100 each
	@.venv/bin/gpulab up

lab-down: setup ## Remove the lab's machines and network
	@.venv/bin/gpulab down

format: setup ## Format the Python code
	@.venv/bin/ruff format .
	@.venv/bin/ruff check --quiet --fix-only .

docs: setup ## Write the generated parts of the documentation: variables, checks and alerts
	@scripts/generate-docs

dist: setup ## Build what is installed elsewhere, the Python package and the collection, into dist/
	@scripts/dist

lock: setup ## Write requirements/lock-py3.*.txt anew from pyproject.toml
	@scripts/lock

clean: ## Remove what make wrote into the checkout, but neither .venv nor the lab
	@rm -rf reports .cache .ansible .mypy_cache .pytest_cache .hypothesis .ruff_cache build dist ./*.egg-info
