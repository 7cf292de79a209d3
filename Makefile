PYTHON ?= python3
VENV ?= .venv
OUT ?= reproduction
# Which tests run, as pytest's -m. Empty runs all of them.
MARKERS ?= not long
# Packages have the versions of constraints.txt; with NEWEST=1 the newest ones, with LOWEST=1 the lowest that
# pyproject.toml allows.
VERSIONS := $(if $(NEWEST),newest,$(if $(LOWEST),lowest,constrained))
BIN := $(VENV)/bin
# Tests start many processes: each would compile all that it imports anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: reproduce test check style types docs clean

reproduce: $(VENV)/ready
	$(BIN)/crossprop reproduce --out $(OUT)

test: $(VENV)/ready-dev
	$(BIN)/python -m pytest -n auto --dist worksteal -m "$(MARKERS)"

check: style types

style: $(VENV)/ready-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(VENV)/ready-dev
	$(BIN)/basedpyright --pythonpath $(BIN)/python

# The site, in site/index.html; it opens from disk. The first time makes its interactive pages, too.
docs: $(VENV)/ready-docs
	$(BIN)/python tools/gallery.py
	PYTHONPATH=tools $(BIN)/zensical build --clean --strict
	rm -f site/404.html  # its links are those of a server: from disk it has no styles

# Another Python, or other versions, make the virtual environment anew; a change of pyproject.toml or constraints.txt
# installs into it again.
MADE := $(VENV)/$(notdir $(PYTHON))-$(VERSIONS)
ON := pyproject.toml constraints.txt $(MADE)
# Python compiles the modules that are imported, which are few of those that are installed (--no-compile).
newest := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
# Unlike pip's option, the variables hold for what builds the package, too.
constrained := PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt $(newest)
lowest := $(newest) uv && $(BIN)/uv pip install --quiet --python $(BIN)/python --resolution lowest-direct
INSTALL := $($(VERSIONS))

# A new pip installs in half the time of one that comes with Python, which would do.
$(MADE):
	rm -rf $(VENV)
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "crossprop needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)
	-$(constrained) --upgrade pip
	touch $@

$(VENV)/ready: $(ON)
	$(INSTALL) --editable '.[paper]'
	touch $@

$(VENV)/ready-dev: $(ON)
	$(INSTALL) --editable '.[dev]'
	touch $(VENV)/ready $@

$(VENV)/ready-docs: $(ON)
	$(INSTALL) --editable '.[paper,docs]'
	touch $(VENV)/ready $@

clean:
	rm -rf $(VENV) .venv-* $(OUT) build site docs/interactive
