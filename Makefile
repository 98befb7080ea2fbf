# make setup, and then: test, test-unit, test-spark, test-all, test-slow, demo, lint, soak, large-state, bench, kernels, fuzz, damage,
# chaos-moves, cases, docs, clean. Every target sets up first if needed; flink, the peer of the benchmark, does not.

SHELL := /bin/bash
PYTHON ?= python3
BIN := .venv/bin
UNIT := $(BIN)/python -m pytest -m "not spark and not slow" -n auto --dist worksteal --durations=15
SPARK := $(BIN)/python -m pytest -m "spark and not slow" --durations=15
export SPARK_LOCAL_IP := 127.0.0.1
export PYSPARK_PYTHON := $(CURDIR)/$(BIN)/python
# Without compiled modules on disk, every process that a test starts compiles all of them again: a second each.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup test test-unit test-spark test-all test-slow demo lint soak large-state bench kernels fuzz damage chaos-moves cases clean

help:  ## what there is
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 20

setup:  ## a virtual environment with everything installed, and Java
	@PYTHON=$(PYTHON) tools/setup.sh

test: setup  ## all tests: first without Spark, then with it
	@tools/timed.sh "unit and property tests" $(UNIT)
	@tools/timed.sh "Spark tests" $(SPARK)

test-unit: setup  ## the tests without Spark
	@tools/timed.sh "unit and property tests" $(UNIT)

test-spark: setup  ## the tests with Spark
	@tools/timed.sh "Spark tests" $(SPARK)

test-all: setup  ## the tests without Spark, with all of their random cases
	@PENSTOCK_ALL=1 tools/timed.sh "unit and property tests, all cases" $(UNIT)

test-slow: setup  ## the tests that take long, with Spark and, where it is installed, Flink
	@tools/timed.sh "slow tests" $(BIN)/python -m pytest -m slow --durations=15

demo: setup  ## a live query on embedded Spark, for about a minute
	@$(BIN)/penstock demo

lint: setup  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

EPOCHS ?= 5000
soak: setup  ## 5,000 epochs in a row, or as many as EPOCHS=n says: what grows that should not?
	$(BIN)/python -m penstock_bench.soak --epochs $(EPOCHS)

large-state: setup  ## a join whose state is ten times the memory of its sites: how much memory, how long an epoch?
	$(BIN)/python -m penstock_bench.large_state --gb 2 --text 200 --memory 100MB
	$(BIN)/python -m penstock_bench.large_state --gb 8 --text 1000 --memory 400MB

bench: setup  ## Penstock and its peers on the same questions
	$(BIN)/penstock bench

kernels: setup  ## how fast the kernels are, on one core and without Spark; needs about 8 GB of memory
	$(BIN)/python -m pytest bench/kernels --benchmark-columns=min,median,rounds

CASES ?= 5000
SEED ?= 1
fuzz: setup  ## 5,000 random queries over random rows, or as many as CASES=n says, against DuckDB in batch
	$(BIN)/python -m tests.support.fuzz --cases $(CASES) --seed $(SEED)

TRIES ?= 1200
damage: setup  ## 1,200 damaged checkpoints, or as many as TRIES=n says: named or harmless, never silent
	$(BIN)/python -m tests.support.damage --tries $(TRIES) --seed $(SEED)

ROUNDS ?= 10
chaos-moves: setup  ## 10 queries on Spark, or ROUNDS=n, are scaled and moved about while drivers and executors are killed
	PYTHONPATH=$(CURDIR) $(BIN)/python tests/spark/chaos_moves.py --rounds $(ROUNDS) --seed $(SEED)

cases: setup  ## rewrites what the .case files expect
	PENSTOCK_REWRITE=1 $(BIN)/python -m pytest tests/test_cases.py

clean:  ## removes what tests, demos and builds leave behind, but not .venv
	rm -rf build dist *.egg-info bench/build bench/dist bench/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks \
	  demo-out bench-work spark-warehouse artifacts
	find penstock bench tests examples -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: docs
docs: setup  ## rewrites docs/reference.md from the code, and the pictures from their texts
	$(BIN)/python tools/reference.py
	$(BIN)/python tools/pictures.py

.PHONY: flink
flink:  ## Apache Flink, a peer of the benchmark, in an environment of its own; needs a JDK, downloads 500 MB
	@PYTHON=$(PYTHON) tools/flink.sh
