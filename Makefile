# make demo   a real tuning job on a local Ray, from nothing but Python 3.11
# make test   the test suite
# make check  lint, types, import direction
# make states tests/states/ anew, when the format or the inference has changed on purpose
# make wheel  dist/raytree-VERSION-py3-none-any.whl, which cluster.yaml gives to every node
# make dist   dist/ with a wheel and an sdist, each tested in an empty environment
# make docs   build/site, the documentation as a web site
# make matrix the test suite on every Python found, and once with the oldest versions of everything: an hour or so
# make mutations  breaks the store in many ways, one at a time: the event fuzz must notice each

PYTHON ?= $(shell command -v python3.11 || command -v python3)
# Another folder than .venv, and versions to hold to: `make matrix` uses both.
VENV ?= .venv
CONSTRAINTS ?=
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check $(if $(CONSTRAINTS),--constraint $(CONSTRAINTS))

.PHONY: demo test test-slow check dist docs matrix mutations states wheel clean

demo: $(VENV)/ready
	$(BIN)/python examples/classifiers.py

# Tests on Ray mostly wait, the others compute: side by side, unless TESTS names some. Ray runs its workers at nice 15.
ON_RAY := $(wildcard tests/test_ray*.py) tests/test_docs.py tests/test_examples.py

test: $(VENV)/ready-dev
ifneq ($(TESTS),)
	$(BIN)/python -m pytest -m "not slow" $(TESTS)
else
	@mkdir -p build
	@echo "engine tests write to build/engine.log; tests on Ray:"
	@nice -n 19 $(BIN)/python -m pytest -m "not slow" $(addprefix --ignore=,$(ON_RAY)) > build/engine.log 2>&1 & engine=$$!; \
	$(BIN)/python -m pytest -m "not slow" $(ON_RAY); on_ray=$$?; \
	echo "engine tests:"; wait $$engine; status=$$?; cat build/engine.log; \
	test $$on_ray -eq 0 && test $$status -eq 0
endif

test-slow: $(VENV)/ready-dev
	$(BIN)/python -m pytest -m slow $(TESTS)

matrix:
	.ci/matrix $(TESTS)

mutations: $(VENV)/ready-dev
	$(BIN)/python -m tests.mutations

check: $(VENV)/ready-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy raytree
	$(BIN)/python -m pytest -m "not slow" tests/test_imports.py

states: $(VENV)/ready-dev
	$(BIN)/python -m tests.test_states

wheel: $(VENV)/ready
	rm -rf dist
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit("raytree needs Python 3.11 or newer: make PYTHON=/path/to/python3.11") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)

# The demo needs no more of the extra "examples" than scikit-learn.
$(VENV)/ready: pyproject.toml | $(VENV)/bin/python
	@echo "installing raytree and Ray into $(VENV) (about a minute) ..."
	$(PIP) -e . "scikit-learn>=1.5"
	@touch $@

$(VENV)/ready-dev: pyproject.toml $(VENV)/ready
	@echo "installing the tools for tests and checks ..."
	$(PIP) -e ".[dev]"
	@touch $@

$(VENV)/ready-docs: pyproject.toml $(VENV)/ready-dev
	$(PIP) -e ".[docs]"
	@touch $@

dist: $(VENV)/ready-dev
	PYTHON=$(abspath $(BIN)/python) .ci/dist

docs: $(VENV)/ready-docs
	rm -rf build/site
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --fresh-env --quiet -d build/doctrees docs build/site
	@echo "the documentation is in build/site/index.html"

clean:
	rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
