# make quickstart: environment, ingest, one answered question. make test: everything that is checked.
PYTHON ?= python3
VENV := .venv
comma := ,
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
QUESTION := my matmul rereads the same tiles from DRAM and L2 hit rate is 30%

# Where there is no CUDA toolkit, nvcc comes as a wheel.
NVCC := $(shell command -v nvcc || ls "$${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" 2>/dev/null)
EXTRAS := dev,gpu,embed$(if $(NVCC),,$(comma)cuda)

# Tests wait for servers and child processes as much as they compute.
WORKERS ?= 3

CHROMIUM := command -v "$${KB_CHROMIUM:-chromium}"

.PHONY: quickstart test lint types contracts unit format embeddings clean
.DEFAULT_GOAL := quickstart

quickstart: $(VENV)/.core
	$(BIN)/kb ingest ./corpus
	$(BIN)/kb query "$(QUESTION)" -k 3
	@echo 'Next: source $(VENV)/bin/activate; kb --help; kb serve, with pages on http://127.0.0.1:8040'

test: lint types contracts unit

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

contracts: $(VENV)/.dev
	$(BIN)/lint-imports

unit: $(VENV)/.dev
	$(BIN)/pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

embeddings: $(VENV)/.core
	$(BIN)/python -m ingest.precompute ./corpus

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
	rm -rf $(VENV)
