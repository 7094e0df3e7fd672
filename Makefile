# make quickstart: environment, ingest, one answered question. make check: lint, types and the quick
# tests, while working. make test: everything that is checked.
PYTHON ?= python3
SHELL := /bin/bash
VENV := .venv
comma := ,
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
QUESTION := my matmul rereads the same tiles from DRAM and L2 hit rate is 30%

# Where there is no CUDA toolkit, nvcc comes as a wheel.
NVCC := $(shell command -v nvcc || ls "$${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" 2>/dev/null)
EXTRAS := dev,gpu,embed,ray$(if $(NVCC),,$(comma)cuda)

# Without bytecode, each of a thousand processes compiles what it imports.
unexport PYTHONDONTWRITEBYTECODE

# Tests wait for servers and child processes as much as they compute.
WORKERS ?= 5

CHROMIUM := command -v "$${KB_CHROMIUM:-chromium}"

.PHONY: quickstart check fast test newest lint types contracts unit format embeddings verdicts clean
.DEFAULT_GOAL := quickstart

quickstart: $(VENV)/.core
	$(BIN)/kb ingest ./corpus
	$(BIN)/kb query "$(QUESTION)" -k 3
	@echo 'Next: source $(VENV)/bin/activate; kb --help; kb serve, with pages on http://127.0.0.1:8040'

# Types and contracts beside tests: these wait now and then, for servers and processes.
test: lint
	@$(MAKE) --no-print-directory --jobs=3 contracts types unit

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

contracts: $(VENV)/.dev
	$(BIN)/lint-imports

check: lint
	@$(MAKE) --no-print-directory --jobs=3 contracts types fast

fast: $(VENV)/.dev
	$(BIN)/pytest --fast --workers $(WORKERS)

unit: $(VENV)/.dev
	$(BIN)/pytest --workers $(WORKERS)

# The newest versions that the bounds allow, in an environment of its own: which of them breaks what
# touches the insides of a dependency (uvicorn's protocol, RE2, pathspec, chromadb, bm25s).
NEWEST := .venv-newest
newest:
	$(PYTHON) -m venv $(NEWEST)
	$(NEWEST)/bin/python -m pip install --quiet --upgrade --upgrade-strategy eager --editable '.[dev]'
	$(NEWEST)/bin/python -m pip freeze --exclude-editable > $(NEWEST)/versions.txt
	-diff <(grep == constraints.txt | sort -f) <(sort -f $(NEWEST)/versions.txt) | grep '^>'
	$(NEWEST)/bin/pytest tests/server/test_robustness.py tests/server/test_limits.py \
	  tests/server/test_security.py tests/server/test_clients.py tests/ingest/test_discovery.py \
	  tests/ingest/test_hostile_sources.py tests/kb/test_patterns.py \
	  tests/kb/test_index_generations.py tests/kb/test_index_damage.py

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

embeddings: $(VENV)/.core
	$(BIN)/python -m ingest.precompute ./corpus

verdicts: $(VENV)/.dev
	PYTHONPATH=. $(BIN)/python -m tests.corpus.recorded
	echo '{}' > tests/agent/proposers/recipe/judged.json
	KB_RECORD=1 $(BIN)/pytest tests/agent/proposers/recipe

# A stamp is written last, so an interrupted set-up starts again where it stopped.
$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' || { \
	  echo "kernel-kb needs Python 3.11, 3.12 or 3.13: make PYTHON=/path/to/python" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) install --quiet --constraint constraints.txt --editable .
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) install --quiet --constraint constraints.txt --editable '.[$(EXTRAS)]'
	@$(CHROMIUM) >/dev/null 2>&1 || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; \
	  then apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium >/dev/null; \
	  else echo "the browser tests need Chromium: install it, or set KB_CHROMIUM" >&2; fi; }
	@touch $@ $(VENV)/.core

clean:
	rm -rf $(VENV) $(NEWEST)
