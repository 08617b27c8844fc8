PYTHON ?= python3
JOBS ?= 2
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test lint format bench clean

demo: $(READY)  ## one MLP under three symmetrizations: a few minutes, a table, an HTML report
	$(BIN)/probsym demo

test: $(READY)  ## the whole test suite, doctests included
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses $(JOBS) $(ARGS)

lint: $(READY)  ## formatting, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(READY)  ## what things cost; each benchmark ends with one line of JSON
	for name in soft_sort sinkhorn nets symmetrized patch_projection patch_transformer exp_classify nbody report; do $(BIN)/python benchmarks/$$name.py || exit 1; done

clean:
	rm -rf $(VENV)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $@
