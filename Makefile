PYTHON ?= python3
OUT ?= reproduction
# Which tests run, as pytest's -m. Empty runs all of them.
MARKERS ?= not long
BIN := .venv/bin
# Tests start many processes: each would compile all that it imports anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: reproduce test check style types tests docs clean

reproduce: .venv/ready
	$(BIN)/crossprop reproduce --out $(OUT)

# The type checker has one thread: it runs beside the tests.
test: style
	@$(MAKE) --no-print-directory -j 2 types tests

check: style types

style: .venv/ready-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: .venv/ready-dev
	$(BIN)/basedpyright

tests: .venv/ready-dev
	$(BIN)/python -m pytest -n auto --dist worksteal -m "$(MARKERS)"

# The site, in site/index.html; it opens from disk. The first time makes its interactive pages, too.
docs: .venv/ready-docs
	$(BIN)/python tools/gallery.py
	PYTHONPATH=tools $(BIN)/zensical build --clean --strict

# Python compiles the modules that are imported, which are few of those that are installed (--no-compile).
# A change of interpreter makes the virtual environment anew; a change of pyproject.toml installs into it again.
# The newest pip installs in half the time of one that comes with Python, which would do.
.venv/python-$(notdir $(PYTHON)):
	rm -rf .venv
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "crossprop needs Python 3.11 or newer")'
	$(PYTHON) -m venv .venv
	-$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --upgrade pip
	touch $@

.venv/ready: pyproject.toml .venv/python-$(notdir $(PYTHON))
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --editable '.[paper]'
	touch $@

.venv/ready-dev: pyproject.toml .venv/python-$(notdir $(PYTHON))
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --editable '.[dev]'
	touch .venv/ready $@

.venv/ready-docs: pyproject.toml .venv/python-$(notdir $(PYTHON))
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --editable '.[paper,docs]'
	touch .venv/ready $@

clean:
	rm -rf .venv $(OUT) build site docs/interactive
