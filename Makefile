PYTHON ?= python3
OUT ?= reproduction
BIN := .venv/bin

.PHONY: reproduce test check clean

reproduce: .venv/ready
	$(BIN)/crossprop reproduce --out $(OUT)

test: .venv/ready-dev check
	$(BIN)/python -m pytest -n auto --dist worksteal

check: .venv/ready-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright
	$(BIN)/lint-imports

# The virtual environment is made again when pyproject.toml or the interpreter asked for changes.
.venv/python-$(notdir $(PYTHON)):
	rm -rf .venv
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "crossprop needs Python 3.11 or newer")'
	$(PYTHON) -m venv .venv
	touch $@

.venv/ready: pyproject.toml .venv/python-$(notdir $(PYTHON))
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

.venv/ready-dev: pyproject.toml .venv/python-$(notdir $(PYTHON))
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch .venv/ready $@

clean:
	rm -rf .venv $(OUT)
