# The two commands of the README are `make demo` and `make test`; both set up first.
# A stamp file makes a second set-up free; it is renewed when the lock or the project file changes.

PYTHON ?= python3
BIN := .venv/bin
DEMO ?= runs/demo
STAMP := .venv/.set-up
CORE := tests/ops tests/mining tests/losses tests/batches tests/evaluation tests/test_house.py tests/test_memory.py
# These take longer than all others of the library: they compile, start processes, or try many batches with many losses.
SLOW := tests/losses/test_compiled.py tests/losses/test_budgets.py tests/batches/test_gathered_loss.py \
  tests/ops/test_fused_gather.py tests/ops/test_fused_nearest.py tests/ops/test_triton_ops.py tests/evaluation/test_shared.py

.PHONY: setup demo test test-core check bench results docs dist extras floor lock clean

setup: $(STAMP)

$(STAMP): requirements.lock pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	test -x $(BIN)/uv || $(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv pip sync --quiet --python $(BIN)/python --require-hashes requirements.lock
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps -e .
	touch $(STAMP)

# Eight trainings of three seeds; what it says here is in benchmarks/records/demo.json, by `python -m tools.record_demo`.
demo: setup
	test -e $(DEMO)/compare.yaml || rm -rf $(DEMO)
	if test -e $(DEMO)/compare.yaml; then $(BIN)/shadowmetric compare --resume $(DEMO); \
	else $(BIN)/shadowmetric compare --epochs 8 --out $(DEMO); fi
	$(BIN)/shadowmetric report $(DEMO)

test: setup
	$(BIN)/python -m pytest --numprocesses auto --dist loadscope

# The library alone: torch and numpy, no command. What it leaves out, `make test` runs.
test-core: setup
	$(BIN)/python -m pytest --numprocesses auto --dist loadscope $(CORE) $(SLOW:%=--ignore=%)

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

bench: setup
	$(BIN)/python -m benchmarks losses

results: setup
	$(BIN)/python -m tools.pages.results

# The same files on every machine and day, since hatchling dates everything 2020-02-02 unless it is told otherwise.
dist: setup
	rm -rf dist
	env -u SOURCE_DATE_EPOCH $(BIN)/python -m hatchling build
	cd dist && sha256sum *

# What each extra is for, done in an environment that has nothing else.
extras: setup
	$(BIN)/python -m pytest tests/test_extras.py -m extras --verbose

# The library's tests with the lowest torch and numpy of pyproject.toml, in an environment of their own.
floor: setup
	$(BIN)/python -m tools.floor .floor

docs: setup
	$(BIN)/python -m tools.pages.memory_page
	$(BIN)/python -m tools.make_site site

lock:
	test -x $(BIN)/uv || ($(PYTHON) -m venv .venv && $(BIN)/python -m pip install --quiet uv)
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --all-extras --group dev pyproject.toml -o requirements.lock

clean:
	rm -rf .venv .floor .pytest_cache .ruff_cache .hypothesis dist build site
