# Every target makes its own virtual environment and installs what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PEERS := .venv-peers/.ready
# Tests may run side by side; numba compiles once, before them.
JOBS ?= auto

.PHONY: demo test oldest 3.12 3.13 spark torch boost lint bench bench-files bench-learning bench-ranking \
	bench-peers paper \
	coverage bounds tuning members pictures reference docs screenshots clean

demo: $(READY)
	$(BIN)/offpolicy demo --out out/demo

# Tests of Spark, PyTorch, LightGBM and pages in a browser are skipped where these are missing.
test: lint
	$(BIN)/python -m pytest -n $(JOBS) -m "not spark"
	$(BIN)/python -m pytest -m spark tests/logs/test_spark.py

# make spark torch boost test: with these as well. Spark needs Java 17 or later.
spark torch boost: $(READY)
	$(BIN)/python -m pip install --quiet --editable '.[$@]'

# The core tests with the oldest versions that pyproject.toml allows, and with other Pythons.
oldest 3.12 3.13:
	PYTHON=$(PYTHON) JOBS=$(JOBS) scripts/core_tests.sh $@

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(READY)
	$(BIN)/python benchmarks/run.py --out out/benchmarks.json

bench-files: $(READY)
	$(BIN)/python benchmarks/files.py --out out/benchmarks-files.json

bench-learning: $(READY)
	$(BIN)/python benchmarks/learning.py --out out/benchmarks-learning.json

# Needs MQ2007 and ClueWeb09 in OFFPOLICY_DATA.
bench-ranking: $(READY)
	$(BIN)/python benchmarks/ranking.py --out out/benchmarks-ranking.json

# Ours beside version 0.1 and what else a user could run, in one run, into the docs: a quarter of an
# hour, and 15 GB of disk.
bench-peers: spark boost $(PEERS)
	$(BIN)/python benchmarks/peers --out out/peers
	$(BIN)/python scripts/peers_page.py

# Goes on from the cells in the repository. Needs data sets: offpolicy datasets fetch, or OFFPOLICY_DATA.
paper: $(READY)
	$(BIN)/offpolicy reproduce all --jobs 2 --out measured/paper
	$(BIN)/python scripts/paper_page.py

# Goes on from the cells in the repository. Data sets: as for `paper`.
coverage: $(READY)
	$(BIN)/offpolicy reproduce coverage --jobs 2 --out measured/coverage
	$(BIN)/python scripts/coverage_page.py

bounds: $(READY)
	$(BIN)/offpolicy reproduce bounds --jobs 2 --out out/bounds

# Of labelled sets from the cells in the repository on. Data sets: as for `paper`.
tuning: $(READY)
	$(BIN)/offpolicy reproduce tuning --jobs 2 --out measured/tuning \
		--datasets letter,optdigits,satimage,pendigits
	$(BIN)/python scripts/tuning_page.py
	$(BIN)/offpolicy reproduce tuning --jobs 2 --out out/tuning --datasets MQ2007,MQ2008

# What docs/ holds of pictures and of the API reference; both are in the repository.
pictures: $(READY)
	$(BIN)/python scripts/estimator_pictures.py

# What follows from the classes of the estimators: exports, tables and menu of the docs, pictures.
members: $(READY)
	$(BIN)/python scripts/members.py
	$(MAKE) pictures reference

reference: $(READY)
	$(BIN)/python scripts/reference.py
	$(BIN)/python scripts/findings_page.py
	$(BIN)/python scripts/method_page.py
	PYTHONPATH=. $(BIN)/python scripts/types_page.py

# Needs Chromium.
screenshots: $(READY)
	$(BIN)/python scripts/screenshots.py

docs: $(READY)
	$(BIN)/mkdocs build --strict --site-dir site

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $(READY)

# obp asks for versions that no longer install; its estimators run on present ones.
$(PEERS):
	$(PYTHON) -m venv .venv-peers
	.venv-peers/bin/python -m pip install --quiet numpy scipy scikit-learn pandas pyyaml tqdm \
		matplotlib seaborn torch==2.13.0 vw-estimators
	.venv-peers/bin/python -m pip install --quiet --no-deps --ignore-requires-python obp==0.5.7
	touch $(PEERS)

clean:
	rm -rf $(VENV) .venv-* out site
