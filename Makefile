PYTHON ?= python3
OUT ?= reproduction
# Which tests run, as pytest's -m. Empty runs all of them.
MARKERS ?= not long
BIN := .venv/bin

.PHONY: reproduce test check clean

reproduce: .venv/ready
	$(BIN)/crossprop reproduce --out $(OUT)

test: .venv/ready-dev check
	$(BIN)/python -m pytest -n auto --dist worksteal -m "$(MARKERS)"

check: .venv/ready-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright
	$(BIN)/lint-imports

# A change of interpreter makes the virtual environment anew; a change of pyproject.toml installs into it again.
.venv/python-$(notdir $(PYTHON)):
	rm -rf .venv
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "crossprop needs Python 3.11 or newer")'
	$(PYTHON) -m venv .venv
	touch $@

.venv/ready: pyproject.toml .venv/python-$(notdir $(PYTHON))
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[paper]'
	touch $@

.venv/ready-dev: pyproject.toml .venv/python-$(notdir $(PYTHON))
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch .venv/ready $@

clean:
	rm -rf .venv $(OUT)
