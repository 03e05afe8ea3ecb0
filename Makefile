# `make demo` shows what taugrid-ray does, `make test` proves it. Both install what they need into
# this folder (.venv, .e2e) and build the local cluster's programs once into ~/.cache/taugrid-ray.

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
READY := $(VENV)/ready
SHARD ?= 1/1
GANGS ?= 600

# Each step is a target, so that one can be run alone; in order, whatever -j says.
.NOTPARALLEL:
.PHONY: help demo test test-all check unit contract scenarios bench crds docs clean

help:
	@echo "make demo       a real RayJob, from no nodes to SUCCEEDED, told as it happens"
	@echo "make test       checks, unit tests, and the scenarios that every change must pass"
	@echo "make test-all   the same with every scenario; SHARD=1/4 runs a quarter of them"
	@echo "make bench      admission of $(GANGS) gangs, beside no check and Kueue's own; GANGS=N"
	@echo "make check      ruff, mypy, import-linter"
	@echo "make unit       what needs no cluster"
	@echo "make contract   the pretend API server of the unit tests held to the real one"
	@echo "make crds       write deploy/crds from the models"
	@echo "make docs       write what is made from the code in docs/"
	@echo "make clean      take down every local cluster of this folder and remove .venv"

$(READY): .ci/requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	  { echo "taugrid-ray needs Python 3.10 or later; name one with: make PYTHON=python3.12 ..."; exit 1; }
	@echo "Installing the Python packages of .ci/requirements.lock into $(VENV) (about a minute) ..."
	@$(PYTHON) -m venv $(VENV) || \
	  { echo "Python's venv module is incomplete here; on Debian and Ubuntu: apt install python3-venv"; exit 1; }
	@$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes -r .ci/requirements.lock
	@$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

demo: $(READY)
	@$(PY) -m e2e demo

# Beside what `make unit` runs: as many simulated lives as a change must survive.
test test-all: export TAUGRID_RAY_LIVES = 500

test: check unit contract
	$(PY) -m e2e run --test

test-all: check unit contract
	$(PY) -m e2e run --all --shard $(SHARD)

check: $(READY)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

unit: $(READY)
	$(PY) -m pytest tests

contract: $(READY)
	$(PY) -m e2e exec --bare -- $(PY) -m pytest tests/contract -k real

bench: $(READY)
	$(PY) -m e2e bench admission --gangs $(GANGS)

crds: $(READY)
	$(PY) -m taugrid_ray.crd > deploy/crds/capacitypolicies.yaml

docs: $(READY)
	$(PY) -m taugrid_ray.policy_reference > docs/reference/capacity-policy.md
	$(PY) -m tests.docs.page

clean:
	@if [ -x $(PY) ]; then $(PY) -m e2e down --all; fi
	rm -rf $(VENV)
