PYTHON ?= python3
JOBS ?= 2
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test docs site-test package lint format bench clean

demo: $(READY)  ## one MLP under three symmetrizations: a few minutes, a table, an HTML report
	OMP_WAIT_POLICY=passive $(BIN)/probsym demo

test: $(READY)  ## the whole test suite, doctests included
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses $(JOBS) $(ARGS)

docs: $(VENV)/.docs  ## the site, from pages, docstrings and executed examples, in build/site; warnings are errors
	OMP_NUM_THREADS=1 $(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet --jobs $(JOBS) docs build/site

site-test: docs  ## the site in a browser: links, search, both colour schemes, phone width, no outside request
	PROBSYM_SITE=build/site $(BIN)/python -m pytest --quiet tests/docs

package: $(VENV)/.package  ## an archive and a wheel in dist, checked, and the wheel tried in an environment of its own
	rm -rf dist
	$(BIN)/python -m build --outdir dist
	$(BIN)/python -m twine check --strict dist/*
	$(BIN)/python tests/packaging/try_wheel.py dist

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
	rm -rf $(VENV) build dist

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $@

$(VENV)/.docs: $(READY)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[docs]"
	touch $@

$(VENV)/.package: $(READY)
	$(BIN)/python -m pip install --quiet build twine
	touch $@
