# Needs make and Python 3.11 or newer, nothing else; everything it makes stays in this folder.
# `make help` lists the targets: each is the line below that carries two hashes.

SHELL := /bin/bash
.DEFAULT_GOAL := help

# The first Python that runs and is new enough (PYTHON=… names another).
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
  $$python -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
  && { command -v $$python; break; }; done)
BUS ?= embedded
DIR ?= .gangline
BENCH ?= bench.json
SEEDS ?= 100
EXAMPLES ?= 10000
FIRST ?= 0
KILLS ?= 1000
ROUNDS ?= 14
AWAY ?= 60
BIN := .venv/bin
STAMP := .venv/.stamp
COMPILED := build/compiled
LOCKS := requirements-bootstrap.lock requirements.lock

.PHONY: help setup demo up down test lint schemas sim properties mutants bench chaos-kafka
.PHONY: chaos-agents experiments lock wheel clean

help: ## List these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) ## Make .venv with everything; .venv/bin/gangline is then the command

# Hashes of everything are checked, also those of the installer itself. uv is the quick one; where a
# mirror or a certificate of the company stands in pip.conf only, pip is the one that gets through.
$(STAMP): pyproject.toml $(LOCKS)
	@test -n "$(PYTHON)" \
	  || { echo "make: no Python 3.11 or newer with venv found (PYTHON=… names one)" >&2; exit 2; }
	@echo "Setting up .venv: Python packages as requirements*.lock name them"
	@test -x $(BIN)/python || "$(PYTHON)" -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes \
	  -r requirements-bootstrap.lock
	@$(BIN)/uv pip sync --quiet --python $(BIN)/python --require-hashes --strict \
	  $(LOCKS) 2>/dev/null \
	  || { echo "make: uv, which reads no pip.conf, could not: pip does it, slowly" >&2; \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes \
	  $(LOCKS:%=-r %); }
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation -e .
	@touch $@

demo: setup ## Run the main job from end to end and end by itself (BUS=kafka: on a real broker)
	$(BIN)/python -m gangline.cli.demo_run --bus $(BUS) --dir $(DIR)

up: setup ## Start the whole stack in the background (BUS=kafka: on a broker of our own)
	$(BIN)/gangline up --dir $(DIR) --bus $(BUS)

down: ## Stop what `make up` started
	$(BIN)/gangline down --dir $(DIR)

test: lint ## Lint, then every test
	$(BIN)/python -m pytest -n 2 --dist loadfile

lint: setup ## Style, types and the walls between rooms
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

schemas: setup ## Write anew what the code says: Avro files, docs/asyncapi.json, diagrams
	$(BIN)/python -m gangline.events.schema_files
	$(BIN)/python -m gangline.events.asyncapi > docs/asyncapi.json
	$(BIN)/python -m gangline.scheduler.diagrams

sim: setup ## Simulate SEEDS cells with faults (FIRST=N: from that one), then `properties`
	$(BIN)/python -m gangline.replay.vopr --seeds $(SEEDS) --first $(FIRST)
	@test $(EXAMPLES) -eq 0 || $(MAKE) properties

properties: setup ## Try every property of the core on EXAMPLES examples, and so many whole cells
	EXAMPLES=$(EXAMPLES) $(BIN)/pytest -q -n auto --timeout 0 tests/properties tests/core

mutants: setup ## Break the program in every named way, and see that the simulation notices
	$(BIN)/python -m tests.mutants

# A compiled core where there is a C compiler; CORE=pure: the source as it stands.
CORE ?= $(shell command -v cc >/dev/null && echo compiled || echo pure)
BUILT = $(if $(filter compiled,$(CORE)),$(COMPILED)/.stamp)
bench: setup $(BUILT) ## Run the benchmarks and write BENCH (default bench.json)
	$(if $(BUILT),PYTHONPATH=$(COMPILED)/site) \
	  $(BIN)/gangline bench decide replay end-to-end --json $(BENCH)

wheel: $(COMPILED)/.stamp ## Build dist/*.whl with the core as machine code (needs a C compiler)
	mkdir -p dist && cp $(COMPILED)/wheel/*.whl dist

# In a copy, so that the source tree stays pure; `site` is the wheel unpacked (docs/adr/0011).
$(COMPILED)/.stamp: $(STAMP) $(shell find src -type f -not -name '*.pyc')
	rm -rf $(COMPILED) && mkdir -p $(COMPILED)
	cp -r src pyproject.toml README.md LICENSE $(COMPILED)
	cd $(COMPILED) && HATCH_BUILD_HOOK_ENABLE_MYPYC=1 \
	  $(CURDIR)/$(BIN)/python -m hatchling build -t wheel -d wheel
	$(BIN)/python -m zipfile -e $(COMPILED)/wheel/*.whl $(COMPILED)/site
	@touch $@

# Some ten minutes a seed at most: each trouble that has a length takes AWAY seconds.
chaos-kafka: SEEDS = 5
chaos-kafka: setup ## Break brokers and leaders: SEEDS times (FIRST=N) ROUNDS troubles, AWAY seconds
	GANGLINE_CHAOS_SEEDS=$(SEEDS) GANGLINE_CHAOS_FIRST=$(FIRST) GANGLINE_CHAOS_ROUNDS=$(ROUNDS) \
	  GANGLINE_CHAOS_AWAY_S=$(AWAY) $(BIN)/python -m pytest -rA -m kafka

chaos-agents: setup ## Kill everybody at every moment of a gang's life, and a busy agent KILLS times
	GANGLINE_MOMENTS=all GANGLINE_DEATHS=2 $(BIN)/python -m pytest -n 0 -rA --timeout=1800 \
	  tests/integration
	GANGLINE_KILLS=$(KILLS) $(BIN)/python -m pytest -n 0 -s --timeout=7200 \
	  tests/agents/test_kill.py -k again_and_again

experiments: setup $(BUILT) ## Run the experiments that docs/experiments describes
	$(if $(BUILT),PYTHONPATH=$(COMPILED)/site) $(BIN)/python -m gangline.replay.experiments

# The locks name no index and no host, so that the same files serve behind any mirror; uv.lock
# would write the address of each file (docs/adr/0004-lock-without-hosts.md).
LOCK := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
  --no-emit-index-url --no-annotate --custom-compile-command 'make lock'

lock: setup ## Resolve all dependencies anew into requirements*.lock (UPGRADE=--upgrade: newest)
	echo "uv" | $(LOCK) $(UPGRADE) - -o requirements-bootstrap.lock
	$(LOCK) $(UPGRADE) pyproject.toml --group build --group test --group lint --group docs \
	  --group release -o requirements.lock

clean: ## Remove what setup, tests and runs made (not a running stack: `make down` first)
	rm -rf .venv .cache .gangline .mypy_cache .ruff_cache .pytest_cache .import_linter_cache \
	  .hypothesis dist build $(BENCH)
