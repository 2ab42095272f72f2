# The same two commands for machines without uv: a plain virtual environment in build/venv.
PYTHON ?= python3
VENV := build/venv

demo: $(VENV)/ready
	$(VENV)/bin/sdcard demo

test: $(VENV)/ready
	$(VENV)/bin/pytest

$(VENV)/ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --upgrade pip
	$(VENV)/bin/pip install --quiet --editable '.[service]' --group dev
	touch $@

.PHONY: demo test
