# `make` alone prints the targets. Everything runs inside .venv, which is made on first use.

PYTHON ?= python3
BIN := .venv/bin

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help test check quick demo bench lab format clean

help:  ## Print this list
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

test: check  ## Run everything: the static checks, then all tests and doctests
	$(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder  # see tests/turns.py

check: .venv/.ready  ## Run the static checks only: ruff, mypy, import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

quick: .venv/.ready  ## Run the tests that take seconds, stopping at the first failure
	$(BIN)/pytest -x -m "not slow"

demo: .venv/.ready  ## Run a skewed stream on a local Spark twice at once, hashed and balanced; draws demo/balance.png
	$(BIN)/python -m trimtab.cli.main demo

bench: .venv/.ready  ## Measure the kernels beside their plain twins and other engines
	$(BIN)/python -m benchmarks.run

lab: .venv/.ready  ## Run the papers' experiments in full and make docs/lab.md of them
	-$(BIN)/python -m trimtab.cli.main lab all  # its status tells of claims that don't hold, which the page shows
	$(BIN)/python -m trimtab.cli.main lab page

format: .venv/.ready  ## Format the code and apply the safe lint fixes
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:  ## Remove .venv, caches and everything built
	rm -rf .venv build dist demo lab src/*.egg-info
	rm -rf .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src tests docs benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

.venv/.ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "trimtab needs Python 3.11 or newer, and '$(PYTHON)' is not." >&2; \
	  echo "Name another one, for example: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,spark,plot,bench]'
	@touch $@
