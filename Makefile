# `make demo` and `make test` do all set-up themselves, in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

# What is run once more without native code: capture itself, not the files or the hook.
WITHOUT_NATIVE := not dump and not fidelity and not native_hook and not statistics_on and not compile and not faults and not healthy and not check and not watch_program

.PHONY: setup demo test test-long lint bench clean

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	$(BIN)/python -m opscope.native || true  # without a compiler all works, only slower
	touch $(READY)

demo: $(READY)
	$(BIN)/python examples/demo.py

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint
	$(BIN)/pytest -n 2 -m "not long"
	OPSCOPE_NATIVE=0 $(BIN)/pytest -n 2 -m "not long" tests/integration -k "$(WITHOUT_NATIVE)"

test-long: $(READY)
	$(BIN)/pytest -m long

bench: $(READY)
	$(BIN)/python benchmarks/what_users_run.py
	$(BIN)/python benchmarks/scaling.py
	$(BIN)/python benchmarks/dump_throughput.py
	$(BIN)/python benchmarks/dump_files.py

clean:
	rm -rf $(VENV) build demo-dump opscope-runs .mypy_cache .pytest_cache .ruff_cache .hypothesis
