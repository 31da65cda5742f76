# What a newcomer needs: `make demo` and `make test`. Both make an environment of their own in .venv.
PYTHON ?= python3
VENV ?= .venv
PIP = $(VENV)/bin/python -m pip --disable-pip-version-check -q
SOURCES = setup.py pyproject.toml README.md $(shell find odmlib bin -name '*.py' -o -name '*.pyx' -o -name '*.pxd' \
	-o -name '*.pyi' -o -name '*.h' -o -name 'odm-*')
# what the suite needs; Spark's tests only where Java is
TEST_EXTRAS = test,docs$(if $(shell command -v java 2>/dev/null),$(comma)spark)
comma = ,

# processes of pytest side by side; TESTS="tests/data" for a part of the suite
WORKERS ?= 2
TESTS ?=
PYTEST = $(VENV)/bin/pytest -n $(WORKERS) $(TESTS)

.PHONY: demo test test-slow test-optimised test-debug test-checked test-user test-wheel test-minimum test-python test-asan test-tsan \
	fuzz lint docs bench wheel dist ci release-check clean

demo: $(VENV)/installed
	$(VENV)/bin/python docs/demo.py

test: $(VENV)/installed-test
	$(PYTEST)

test-slow: $(VENV)/installed-test
	$(VENV)/bin/pytest -m slow

# the same suite under `python -O`, which removes asserts: no check of a user's data may be one. By the variable,
# because `python -m pytest` would import the uncompiled sources of this folder instead of the installed package.
test-optimised: $(VENV)/installed-test
	PYTHONOPTIMIZE=1 $(PYTEST)

# the same suite with Cython's bounds checks compiled in
test-debug: $(VENV)/installed-debug
	PYTHONPATH=$(CURDIR)/build/debug/installed $(PYTEST)

# both in one run, for CI
test-checked: $(VENV)/installed-debug
	PYTHONOPTIMIZE=1 PYTHONPATH=$(CURDIR)/build/debug/installed $(PYTEST)

# as a user without rights: some tests mean nothing to root. Python must lie where such a user can read it.
test-user: $(VENV)/installed-test
	.ci/as-user $(VENV)/bin/python -P -m pytest -p no:cacheprovider -n $(WORKERS) $(TESTS)

# the wheel of this Python, and of no file that is not in the sources
wheel: $(VENV)/installed-dev
	rm -rf build/wheel && $(PIP) wheel --no-deps --wheel-dir build/wheel .

# the wheel in a clean environment with the oldest versions that pyproject.toml allows
test-minimum: wheel
	.ci/test-wheel .venv-minimum $(PYTHON) minimum $(TESTS)

# the wheel in a clean environment with the newest versions
test-wheel: wheel
	.ci/test-wheel .venv-wheel $(PYTHON) newest $(TESTS)

# compiled and tested by another Python, which pyenv has: make test-python VERSION=3.13
test-python:
	.ci/test-python "$(VERSION)" $(TESTS)

# The same suite with every memory access and every undefined operation watched. The runtimes come first, because
# Python itself is not compiled with them. Leaks are CPython's own. Reports are not captured, so that they are seen. Java
# does not start beside them, so Spark's tests are left out.
RUNTIMES = $(foreach name,libasan.so libubsan.so libstdc++.so.6,$$($(CXX) -print-file-name=$(name)))
test-asan:
	ODMLIB_SANITIZE=1 $(MAKE) VENV=.venv-asan TEST_EXTRAS=test,docs .venv-asan/installed-test
	LD_PRELOAD="$(RUNTIMES)" ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 \
		UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 PYTHONMALLOC=malloc ODMLIB_SANITIZE=1 \
		.venv-asan/bin/pytest --capture=sys -o timeout=1800 $(TESTS)

# the thread pool alone, under ThreadSanitizer: threads, jobs inside of jobs, forks
test-tsan: $(VENV)/installed-test
	ODMLIB_SANITIZE=1 $(VENV)/bin/pytest -m slow tests/sanitizers/test_thread_pool.py

# Every kind of file that is read, by atheris; FUZZ_SECONDS for each target. What breaks a promise stays in tests/fuzz/corpus.
FUZZ_SECONDS ?= 60
FUZZ_TARGETS ?= reader numbers model foreign_model ranges weights grid
fuzz: $(VENV)/installed-fuzz
	set -e; for target in $(FUZZ_TARGETS); do $(VENV)/bin/python tests/fuzz/run.py $$target $(FUZZ_SECONDS); done

lint: $(VENV)/installed-dev
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/codespell docs odmlib examples benchmarks *.md

# the manual, in docs/_build/html; warnings are errors
docs: $(VENV)/installed-docs
	$(VENV)/bin/sphinx-build -E -W --keep-going -q -d docs/_build/trees docs docs/_build/html

# BENCH="--only reading --quick" or BENCH=--write; train and svm-train come from Debian's liblinear-tools, libsvm-tools
bench: $(VENV)/installed-bench
	$(VENV)/bin/python -m benchmarks $(BENCH)

# the same sources make the same archives, which is checked by making them twice
dist: export SOURCE_DATE_EPOCH = $(shell git log -1 --format=%ct 2>/dev/null || echo 1700000000)
# sdist and wheel, checked and made fit for other Linux systems; the suite run on the wheel in a clean environment
dist: $(VENV)/installed-dev
	rm -rf dist build/again
	$(VENV)/bin/python -m build
	$(VENV)/bin/python -m build -o build/again
	for file in dist/*; do cmp "$$file" "build/again/$${file#dist/}" || exit 1; done
	if [ "$$(uname)" = Linux ]; then PATH="$(VENV)/bin:$$PATH" auditwheel repair -w dist dist/*-linux_*.whl && rm dist/*-linux_*.whl; fi
	$(VENV)/bin/twine check --strict dist/*
	rm -rf .venv-dist && $(PYTHON) -m venv .venv-dist
	.venv-dist/bin/python -m pip --disable-pip-version-check -q install "$$(ls dist/*.whl)[test,docs]"
	.venv-dist/bin/pytest -n $(WORKERS) $(TESTS)

# what continuous integration runs, and what must pass before a release; both end with one page
ci:
	.ci/run

release-check:
	.ci/run release

clean:
	rm -rf build dist *.egg-info .venv .venv-* demo docs/_build
	find odmlib \( -name '*.so' -o -name '__pycache__' \) -prune -exec rm -rf {} +

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --upgrade pip

$(VENV)/installed: $(VENV)/bin/python $(SOURCES)
	$(PIP) install .
	@touch $@

$(VENV)/installed-test: $(VENV)/bin/python $(SOURCES)
	$(PIP) install ".[$(TEST_EXTRAS)]"
	@touch $@ $(VENV)/installed

$(VENV)/installed-debug: $(VENV)/installed-test
	rm -rf build/debug/installed
	ODMLIB_DEBUG=1 $(PIP) install --no-deps --target build/debug/installed .
	@touch $@

$(VENV)/installed-docs: $(VENV)/bin/python $(SOURCES)
	$(PIP) install ".[docs]"
	@touch $@ $(VENV)/installed

$(VENV)/installed-fuzz: $(VENV)/bin/python $(SOURCES)
	$(PIP) install ".[$(TEST_EXTRAS)]" --group fuzz
	@touch $@ $(VENV)/installed $(VENV)/installed-test

$(VENV)/installed-bench: $(VENV)/bin/python $(SOURCES)
	$(PIP) install . --group bench
	@touch $@ $(VENV)/installed

$(VENV)/installed-dev: $(VENV)/bin/python $(SOURCES)
	$(PIP) install ".[$(TEST_EXTRAS)]" --group dev
	@touch $@ $(VENV)/installed $(VENV)/installed-test $(VENV)/installed-docs
