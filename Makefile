# make demo   a real tuning job on a local Ray, from nothing but Python 3.11
# make test   the test suite
# make test-browser  the page in a headless Chromium; installs Debian's if there is none and it may
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

.PHONY: demo test test-slow browser test-browser check dist docs matrix mutations states wheel clean

demo: $(VENV)/ready
	$(BIN)/python examples/classifiers.py --report build/report.html

# Tests on Ray mostly wait, the others compute: side by side, unless TESTS names some. Ray runs its workers at nice 15.
# BROWSER=1: with the tests of the page in a browser.
ON_RAY := $(wildcard tests/test_ray*.py) tests/test_examples.py
DEFAULT := not slow$(if $(BROWSER),, and not browser)

test: $(VENV)/ready-dev
ifneq ($(TESTS),)
	$(BIN)/python -m pytest -m "$(DEFAULT)" $(TESTS)
else
	@mkdir -p build
	@echo "tests without Ray, and of the documentation, write to build/others.log; tests on Ray:"
	@nice -n 5 $(BIN)/python -m pytest -m "$(DEFAULT)" $(addprefix --ignore=,$(ON_RAY)) > build/others.log 2>&1 & others=$$!; \
	$(BIN)/python -m pytest -m "$(DEFAULT)" $(ON_RAY); on_ray=$$?; \
	echo "tests without Ray, and of the documentation:"; wait $$others; status=$$?; cat build/others.log; \
	test $$on_ray -eq 0 && test $$status -eq 0
endif

test-slow: $(VENV)/ready-dev
	$(BIN)/python -m pytest -m slow $(TESTS)

matrix:
	.ci/matrix $(TESTS)

# A chromium and its driver: found, or installed where apt-get may; else the message says what is missing.
browser:
	@command -v chromedriver > /dev/null && { command -v chromium || command -v google-chrome; } > /dev/null || { \
	test "$$(id -u)" = 0 && command -v apt-get > /dev/null && echo "installing chromium and chromium-driver ..." && \
	{ apt-get install -y -qq chromium chromium-driver fonts-dejavu-core > /dev/null 2>&1 || \
	{ apt-get update -qq && apt-get install -y -qq chromium chromium-driver fonts-dejavu-core; } > /dev/null 2>&1; }; } || { \
	echo "no browser: this needs chromium and chromedriver (Debian: apt-get install chromium chromium-driver)"; exit 1; }

test-browser: $(VENV)/ready-dev browser
	$(BIN)/python -m pytest -m browser tests/test_browser.py

mutations: $(VENV)/ready-dev
	$(BIN)/python -m tests.mutations

check: $(VENV)/ready-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy raytree
	$(BIN)/python -m pytest -m "not slow and not browser" tests/test_imports.py

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
