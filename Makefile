# For machines without uv: everything runs in a plain virtual environment in build/venv.
PYTHON ?= python3
VENV := build/venv
FUZZ_SECONDS ?= 600

demo: $(VENV)/ready
	$(VENV)/bin/sdcard demo

test: $(VENV)/ready
	$(VENV)/bin/pytest -n auto

# Coverage-guided; CI does the same for 25 seconds. What it learns is kept in build/fuzz.
fuzz: $(VENV)/ready
	$(VENV)/bin/pip install --quiet atheris==3.0.0
	$(VENV)/bin/python -m fuzz -max_total_time=$(FUZZ_SECONDS) -timeout=10 -rss_limit_mb=2048

# Changes the code in small ways and looks whether a test notices; docs/mutants.md explains what is left.
mutants: $(VENV)/ready
	$(VENV)/bin/pip install --quiet mutmut==3.8.1
	CI=true $(VENV)/bin/mutmut run
	$(VENV)/bin/mutmut results

# Everything that docs/performance.md says, measured again: some minutes of a machine that does nothing else.
performance: $(VENV)/ready
	$(VENV)/bin/pip install --quiet matplotlib==3.11.2
	$(VENV)/bin/python -m benchmarks
	$(VENV)/bin/python -m benchmarks.plots

# All that is made from the code: vectors, pages, pictures, openapi.json. The tests prove it current.
pages: $(VENV)/ready
	$(VENV)/bin/python -m pages

# The wheel, built from the sdist, tried with the core alone and with each extra; needs uv.
packages:
	.ci/packages

# The site of all pages, in build/site/out.
docs: $(VENV)/ready
	$(VENV)/bin/pip install --quiet --group docs
	$(VENV)/bin/python -m pages.site

$(VENV)/ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --upgrade pip
	$(VENV)/bin/pip install --quiet --editable '.[service]' --group dev
	touch $@

.PHONY: demo test fuzz mutants performance pages packages docs
