# Each target sets up .venv on first use. `make help` lists them.
# Another Python: make demo PYTHON=python3.12

PYTHON ?= python3
STEPS ?= 1000000
VENV := .venv
PIP := $(VENV)/bin/python -m pip --disable-pip-version-check
RUN_TIME := $(VENV)/.run-time-installed
DEV := $(VENV)/.dev-installed

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test lab check notebooks exercises matrix fuzz bench

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(RUN_TIME) ## Generate stories with the shipped model on the CPU
	@$(VENV)/bin/minivllm demo

test: $(DEV) ## Run every test, the linter and the type checker
	@$(VENV)/bin/python tools/run_tests.py

lab: $(DEV) ## Open the course in JupyterLab, at its first chapter
	@$(VENV)/bin/minivllm lab

check: $(DEV) ## Lint and type-check
	@$(VENV)/bin/python tools/run_tests.py check

notebooks: $(DEV) ## Rebuild and execute the notebooks from notebooks/source
	@$(VENV)/bin/python -m minivllm.course.build notebooks

exercises: $(DEV) ## Generate exercises/ from solutions/ (overwrites what you wrote there)
	@$(VENV)/bin/python -m minivllm.course.build exercises

matrix: $(DEV) ## Try every classic mistake on the checks, and write docs/kill_matrix.md
	@$(VENV)/bin/python -m minivllm.course.build matrix

fuzz: $(DEV) ## Drive scheduler and block pool at random, a million steps (STEPS=...)
	@$(VENV)/bin/python tools/fuzz_planner.py --steps $(STEPS)

bench: $(DEV) ## Measure planner and engine on this machine (some minutes)
	@$(VENV)/bin/python -m minivllm.bench.planner
	@$(VENV)/bin/python -m minivllm.bench.cpu_engine

# The stamps make an install happen once, and again when the versions change.
$(RUN_TIME): pyproject.toml constraints.txt | $(VENV)/bin/pip
	@echo "Installing what the engine needs (once; PyTorch is the large part) ..."
	@$(PIP) install --editable . --constraint constraints.txt
	@touch $@

$(DEV): pyproject.toml constraints.txt | $(VENV)/bin/pip
	@echo "Installing the engine, the course and the test tools (once; some minutes) ..."
	@$(PIP) install --editable '.[dev]' --constraint constraints.txt
	@touch $@ $(RUN_TIME)

$(VENV)/bin/pip:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' || { \
		echo "minivllm needs Python 3.11, 3.12 or 3.13, but '$(PYTHON)' is:" >&2; \
		$(PYTHON) --version >&2; \
		echo "Install one and name it: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { \
		echo "'$(PYTHON) -m venv' failed. On Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
