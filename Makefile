# make             lists the targets
# Everything runs in .venv, which is made and filled when needed and left alone when it is up to date.

PYTHON ?= $(shell python3.11 -c '' 2>/dev/null && echo python3.11 || echo python3)
DEMO_DIR ?= runs/demo
DEMO_FLAGS ?=
BENCH_DIR ?= runs/bench
BENCH_FLAGS ?=
RESULTS_FLAGS ?=
TEST_FLAGS ?=

BIN := .venv/bin
INSTALLED := .venv/installed

.DEFAULT_GOAL := help
.PHONY: help install demo test lint format bench results clean

help:
	@echo 'make install   create .venv and install the package with all that it needs'
	@echo 'make demo      train two tasks, test them on larger graphs, show where they err (DEMO_DIR, DEMO_FLAGS)'
	@echo 'make test      run the tests (TEST_FLAGS, for example TEST_FLAGS=--slow)'
	@echo 'make lint      check style and format'
	@echo 'make format    put the code into its format'
	@echo 'make bench     run the benchmarks (BENCH_DIR, BENCH_FLAGS, for example BENCH_FLAGS=--quick)'
	@echo 'make results   put the scores of runs and the benchmarks into README.md and docs/ (RESULTS_FLAGS)'
	@echo 'make clean     remove caches and build leftovers; .venv, runs/ and data/ stay'

install: $(INSTALLED)

# torch first and alone, so that nothing else has a say in which build of it is taken.
$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "graphalgo needs Python 3.11 or later: make PYTHON=...")'
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv .venv
	@echo "installing into .venv; this takes a few minutes the first time"
	$(BIN)/python -m pip install --quiet -c constraints.txt torch
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[clrs,dev]'
	@touch $@

demo: $(INSTALLED)
	$(BIN)/graphalgo demo --run_dir $(DEMO_DIR) $(DEMO_FLAGS)

# One thread a process: the tests are small, and several processes run beside each other.
test: $(INSTALLED)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile $(TEST_FLAGS)

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(INSTALLED)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(INSTALLED)
	$(BIN)/python -m benchmarks.samplers --out $(BENCH_DIR)/samplers.json $(BENCH_FLAGS)
	$(BIN)/python -m benchmarks.search --out $(BENCH_DIR)/search.json $(BENCH_FLAGS)
	$(BIN)/python -m benchmarks.search --distribution --out $(BENCH_DIR)/search_distribution.json $(BENCH_FLAGS)
	$(BIN)/python -m benchmarks.mixers --out $(BENCH_DIR)/mixers.json $(BENCH_FLAGS)

results: $(INSTALLED)
	$(BIN)/python -m benchmarks.results $(RESULTS_FLAGS)

clean:
	rm -rf build dist *.egg-info .pytest_cache .ruff_cache
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
