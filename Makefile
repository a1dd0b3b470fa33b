# make demo   a real tuning job on a local Ray, from nothing but Python 3.11
# make test   the test suite
# make test-browser  the page in a headless Chromium; installs Debian's if there is none and it may
# make check  lint, types, import direction
# make states tests/states/ anew, when the format or the inference has changed on purpose
# make wheel  dist/raytree-VERSION-py3-none-any.whl, which cluster.yaml gives to every node
# make mutations  breaks the store in many ways, one at a time: the event fuzz must notice each

PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin

.PHONY: demo test test-slow browser test-browser check mutations states wheel clean

demo: .venv/ready
	$(BIN)/python examples/classifiers.py --report build/report.html

# Tests on Ray mostly wait, the others compute: side by side, unless TESTS names some. Ray runs its workers at nice 15.
ON_RAY := $(wildcard tests/test_ray*.py) tests/test_docs.py tests/test_examples.py

test: .venv/ready-dev
ifdef TESTS
	$(BIN)/python -m pytest -m "not slow and not browser" $(TESTS)
else
	@mkdir -p build
	@echo "engine tests write to build/engine.log; tests on Ray:"
	@nice -n 19 $(BIN)/python -m pytest -m "not slow and not browser" $(addprefix --ignore=,$(ON_RAY)) > build/engine.log 2>&1 & engine=$$!; \
	$(BIN)/python -m pytest -m "not slow and not browser" $(ON_RAY); on_ray=$$?; \
	echo "engine tests:"; wait $$engine; status=$$?; cat build/engine.log; \
	test $$on_ray -eq 0 && test $$status -eq 0
endif

test-slow: .venv/ready-dev
	$(BIN)/python -m pytest -m slow $(TESTS)

# A chromium and its driver: found, or installed where apt-get may; else the message says what is missing.
browser:
	@command -v chromedriver > /dev/null && { command -v chromium || command -v google-chrome; } > /dev/null || { \
	test "$$(id -u)" = 0 && command -v apt-get > /dev/null && echo "installing chromium and chromium-driver ..." && \
	{ apt-get install -y -qq chromium chromium-driver fonts-dejavu-core > /dev/null 2>&1 || \
	{ apt-get update -qq && apt-get install -y -qq chromium chromium-driver fonts-dejavu-core; } > /dev/null 2>&1; }; } || { \
	echo "no browser: this needs chromium and chromedriver (Debian: apt-get install chromium chromium-driver)"; exit 1; }

test-browser: .venv/ready-dev browser
	$(BIN)/python -m pytest -m browser tests/test_browser.py

mutations: .venv/ready-dev
	$(BIN)/python -m tests.mutations

# Type checkers know no package-dir: they see raytree/ and searchers/ as the one package that gets installed.
check: .venv/ready-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	rm -rf build/typed && mkdir -p build/typed && cp -r raytree build/typed/raytree && cp -r searchers build/typed/raytree/searchers
	MYPYPATH=build/typed $(BIN)/mypy build/typed/raytree
	$(BIN)/python -m pytest -m "not slow and not browser" tests/test_imports.py

states: .venv/ready-dev
	$(BIN)/python -m tests.test_states

wheel: .venv/ready
	rm -rf dist
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .

.venv/bin/python:
	$(PYTHON) -c 'import sys; sys.exit("raytree needs Python 3.11 or newer: make PYTHON=/path/to/python3.11") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv .venv

.venv/ready: pyproject.toml | .venv/bin/python
	@echo "installing raytree and Ray into .venv (about a minute) ..."
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

.venv/ready-dev: pyproject.toml .venv/ready
	@echo "installing the tools for tests and checks ..."
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[dev,configspace,examples]"
	@touch $@

clean:
	rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
