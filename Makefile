# `make` alone prints the targets. Everything runs inside .venv, which is made on first use.

PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt
PYTEST := $(BIN)/pytest --dist loadfile --no-loadscope-reorder -n  # see tests/turns.py
TIERS := unit papers spark servers cluster live  # see tests/tiers.py
MINUTES ?= 5
unexport PYTHONDONTWRITEBYTECODE  # every Python that Spark starts would compile all modules again

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help test tests-side-by-side check quick laws demo java bench lab format clean $(TIERS)

help:  ## Print this list
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

test: .venv/.ready  ## Run everything: the static checks, all tests and doctests
	@$(MAKE) --no-print-directory --jobs=2 check tests-side-by-side  # these often wait, and the checks take a core
	$(BIN)/pytest -m alone tests/spark/test_cold_start.py

tests-side-by-side: .venv/spark-classes.jsa
	$(PYTEST) 3 -m "not alone"  # one more than there are cores: tests of Spark and servers also wait

check: .venv/.ready  ## Run the static checks only: ruff, mypy, import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

$(TIERS): .venv/.ready
	$(PYTEST) 2 -m "$@ and not alone" || test $$? = 5  # 5: there are none

unit: ## Run what needs no Spark; also papers, spark, servers, cluster, live: a tier of tests each
quick: .venv/.ready  ## Run the quick part of it, stopping at the first failure
	$(PYTEST) 2 -x -m "unit and not slow"

laws: .venv/.ready  ## Run random jobs and draw new examples for the laws for MINUTES=5, and make small what breaks one
	$(BIN)/python -m tests.search --minutes $(MINUTES)

demo: java .venv/.demo-ready  ## Run a skewed stream on a local Spark, hashed and balanced; draws demo/balance.png
	$(BIN)/python -m trimtab.cli.main demo

java:  # before anything is installed; the command looks at its version, too
	@test -x "$${JAVA_HOME:-/none}/bin/java" || command -v java >/dev/null || { \
	  echo "The demonstration runs on Spark, which needs Java 17 or newer, and there is none: no JAVA_HOME, no java" >&2; \
	  echo "on the path. Install it, for example openjdk-17-jre-headless. There is a demonstration without it, too:" >&2; \
	  echo "  make .venv/.demo-ready && .venv/bin/trimtab demo --without-spark" >&2; exit 1; }

bench: .venv/.ready  ## Measure the kernels beside their plain twins and other engines
	$(BIN)/python -m benchmarks.run

lab: .venv/.ready  ## Run the papers' experiments in full and make docs/lab.md of them
	-$(BIN)/python -m trimtab.cli.main lab all  # it fails if claims don't hold; the page shows them
	$(BIN)/python -m trimtab.cli.main lab page

format: .venv/.ready  ## Format the code and apply the safe lint fixes
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:  ## Remove .venv, caches and everything built
	rm -rf .venv build dist demo lab-results src/*.egg-info lab/src/*.egg-info
	rm -rf .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src lab tests docs benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

.venv/spark-classes.jsa: .venv/.ready  # see tests/java.py
	@$(BIN)/python -m tests.java

.venv/.ready: pyproject.toml lab/pyproject.toml constraints.txt | .venv/bin/python  # all that .demo-ready has, and more
	@echo "Installing trimtab, Spark and what checks, tests and benchmarks need: 1.9 GB, in about a minute."
	$(PIP) --no-compile -e '.[dev,spark,bench]' -e lab  # Python compiles what is imported
	@echo "Compiling what doesn't depend on a query: some 40 seconds on two cores."
	$(BIN)/trimtab warm
	@touch .venv/.demo-ready $@

.venv/.demo-ready: pyproject.toml lab/pyproject.toml constraints.txt | .venv/bin/python
	@echo "Installing trimtab, Spark and matplotlib: 1.4 GB, in about a minute."
	$(PIP) -e '.[spark]' -e lab
	@echo "Compiling the kernels of windows: some seconds."
	$(BIN)/trimtab warm engines
	@touch $@

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "trimtab needs Python 3.11 or newer, and '$(PYTHON)' is not." >&2; \
	  echo "Name another one, for example: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@echo "Making a virtual environment in .venv."
	$(PYTHON) -m venv .venv
