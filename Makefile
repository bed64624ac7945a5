# Every target sets up .venv by itself, and installs again only when pyproject.toml or constraints.txt changed: for the
# demo the package alone, for all else also its extras and the tools of its developers.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PACKAGE := $(VENV)/.package
STAMP := $(VENV)/.installed
REPORTED := $(addprefix experiments/,ablation_112 field_112 sweep sweep_224 final_112/results.json final_224b/results.json turned_224/results.json)
export HF_HUB_OFFLINE ?= 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help demo test test-assets processors check format bench soak docs clean

help:
	@echo "make demo    the main job, offline, on the embedded default"
	@echo "make test    checks and tests (what continuous integration runs)"
	@echo "make test-assets  what some browser tests need besides, by npm; without it they are skipped"
	@echo "make processors  the tests that ask for the same bits, as on two older processors"
	@echo "make check   ruff, mypy, import layers"
	@echo "make format  let ruff rewrite the code's layout"
	@echo "make bench   every claim about speed, measured (BENCH=--quick for a short run)"
	@echo "make soak    long tests, the properties on new random examples, kills, damaged inputs, an hour of load on the page"
	@echo "             (SOAK='--kills 8 --damaged 500 --page-seconds 60 --seed 1' for a short run)"
	@echo "make docs    the documentation as a web site in site/"

$(PACKAGE): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("cplsr needs Python 3.11 or newer, this is " + sys.version.split()[0] + ": set PYTHON=python3.11" if sys.version_info < (3, 11) else 0)'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt --editable .
	@touch $@

$(STAMP): $(PACKAGE)
	$(BIN)/python -m pip install --quiet -c constraints.txt --editable '.[dev]'
	@touch $@

demo: $(PACKAGE)
	$(BIN)/cplsr demo

# Packages that some browser tests use; without them those tests are skipped, and say so. Where CPLSR_TEST_ASSETS names
# the folder, they must be in it.
ASSETS := axe-core@4.14.0 onnxruntime-web@1.30.0
CPLSR_TEST_ASSETS ?= tests/.assets
test-assets:
	mkdir -p "$(CPLSR_TEST_ASSETS)"
	npm pack --loglevel=error --ignore-scripts --pack-destination "$(CPLSR_TEST_ASSETS)" $(ASSETS)

test: check
	$(BIN)/python -m pytest -n 3 --dist worksteal -m "not soak"

EXACT := $(BIN)/python -m pytest -n 2 -m "exact and not soak" tests/adapters tests/backbones tests/episodes tests/evaluation tests/training
processors: $(STAMP)
	ATEN_CPU_CAPABILITY=avx2 MKL_ENABLE_INSTRUCTIONS=AVX2 DNNL_MAX_CPU_ISA=AVX2 $(EXACT)
	ATEN_CPU_CAPABILITY=default MKL_ENABLE_INSTRUCTIONS=SSE4_2 $(EXACT)

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP)
	@for script in $$(ls benchmarks/*.py | grep -v claims.py); do echo "== $$script"; $(BIN)/python $$script $(BENCH) || exit 1; done

soak: $(STAMP)
	$(BIN)/python -m pytest -m "soak or hypothesis" --hypothesis-profile=default
	PYTHONPATH=tests $(BIN)/python -m soak $(SOAK)

docs: $(STAMP)
	$(BIN)/python -m pip install --quiet -c constraints.txt --editable '.[docs]'
	$(BIN)/mkdocs build --strict
	$(BIN)/cplsr report $(REPORTED) --out site/report.html

clean:
	rm -rf $(VENV) site dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
