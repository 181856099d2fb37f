# Two commands matter: `make demo` and `make test`. Both begin with `make setup`. All: `make help`.
# The first that fits; PYTHON=/path/to/python3.12 chooses another.
PYTHON ?= $(shell for name in python3 python3.13 python3.12 python3.11 python3.14; do \
	$$name -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' 2>/dev/null && echo $$name && break; done)
VENV   := .venv
BIN    := $(VENV)/bin
WORKERS ?= 2
WIRE   := protos/roambench/wire/v1
# All that may be installed, by digest: made by `make lock`. LOCKED EXTRA... prints a part of it.
LOCK   := packaging/lock.txt
LOCKED  = $(BIN)/python packaging/locked.py
INSTALL = $(BIN)/pip install -q --disable-pip-version-check

SCALE  ?= small

.PHONY: help setup test-setup servers host-tools demo demo-full docs pictures release quick test test-hosts test-all coverage check protos check-protos lock bench soak reproduce verdicts clean

help:
	@echo "make demo      set everything up, run MOHAWK against HierFAVG on 8 local agents, open the report (a minute and a half)"
	@echo "make demo-full the same with three times the steps, at half the speed (seven minutes): the figures of docs/start"
	@echo "make quick     linters, types, architecture, tests of what neither waits nor starts a process (< 2 minutes)"
	@echo "make test      linters, types, architecture, tests (half an hour on 2 cores)"
	@echo "make test-hosts  provision, run and break real Debian hosts in containers (root; a quarter of an hour on 2 cores)"
	@echo "make coverage  of the packages that neither wait nor start processes, by their own tests (6 minutes)"
	@echo "make servers   install the servers and the browser that tests start (needs root)"
	@echo "make test-all  make test and make test-hosts with the slow tests, and an aarch64 Debian (hours)"
	@echo "make bench     the short benchmarks, and the table of all in benchmarks/README.md (a quarter of an hour; FULL=1: all, two hours; PEERS=1: beside Flower and pfl)"
	@echo "make reproduce  the five papers' tables and figures on two cores (SCALE=small: 17 minutes; see docs/reproducing.md)"
	@echo "make verdicts   the same, and its figures into docs/results (CHECK=--check: compare with those)"
	@echo "make soak      1,000 random faults in real runs: kill, cut, fill, freeze (hours; FAULTS=, SEED=)"
	@echo "make docs      the pages as a site: build/site/index.html; a broken link ends it"
	@echo "make pictures  renew docs/images, from a run of the longer demo and a Chromium"
	@echo "make release   what a release publishes: the example report and pictures of today's code, and the site with them"
	@echo "make protos    regenerate the wire messages"
	@echo "make lock      renew packaging/lock.txt: versions and digests of what everything here and boards install"

setup: $(VENV)/.ready

# Sources are compiled when they are first run: all of them would take a fifth more space, and half a minute.
# Every file by its digest but torch's, whose builds with and without CUDA have one version (docs/decisions/0010).
# What tests packages and is part of them goes, and torch's copies of protoc: a seventh of .venv, and nothing runs it.
$(VENV)/.ready: pyproject.toml $(LOCK) packaging/locked.py packaging/torch.sh
	@sh packaging/fitting_python.sh $(PYTHON)
	$(PYTHON) -m venv $(VENV)
	$(LOCKED) controller >$(VENV)/controller.txt
	$(INSTALL) --no-compile --require-hashes -r $(VENV)/controller.txt
	sh packaging/torch.sh $(BIN)/pip $(CUDA)
	@cd $(VENV)/lib/python3*/site-packages && rm -rf torch/test torch/bin/test_* torch/bin/*Test torch/bin/protoc* && \
		find networkx numpy pyarrow scipy sklearn sympy -depth -type d -name tests -exec rm -r {} +
	$(INSTALL) --no-deps --no-build-isolation -e .
	@touch $@

# What tests and linters need beside it: half as much again, for people who change the code. Tests start hundreds of
# processes, many at once: what these load is compiled before, two thirds of all sources.
UNLOADED := /(tests|torch/(_dynamo|_inductor|onnx|testing/_internal)|ray/rllib|sympy|networkx|debugpy|mypyc?|ansible_test|lexers)/
test-setup: $(VENV)/.tests build/flower build/trackers
$(VENV)/.tests: $(VENV)/.ready
	$(LOCKED) controller test >$(VENV)/tests.txt
	$(INSTALL) --no-compile --require-hashes -r $(VENV)/tests.txt
	$(BIN)/python -m compileall -q -j 0 -x '$(UNLOADED)' $(VENV)/lib >/dev/null 2>&1 || true
	@touch $@

# An environment of Flower's apps: flwr, and what it wants older than we have it; all else is found in ours. Apps run in
# an interpreter of their own, so nothing of this is in the lock.
build/flower: packaging/flower.txt $(VENV)/.tests
	@rm -rf $@
	$(BIN)/python -m venv --without-pip $@
	@$(BIN)/python -c "import sysconfig; print(sysconfig.get_path('purelib'))" >$$(echo $@/lib/python3*/site-packages)/beside.pth
	$(BIN)/pip --python $@/bin/python install -q --disable-pip-version-check --no-compile --no-deps --ignore-installed \
		--require-hashes -r $<
	@touch $@

# MLflow's and Weights & Biases' own clients, which read back what was exported; all else is found in ours.
build/trackers: $(LOCK) $(VENV)/.tests
	@rm -rf $@
	$(BIN)/python -m venv --without-pip $@
	@$(BIN)/python -c "import sysconfig; print('import site; site.addsitedir(%r)' % sysconfig.get_path('purelib'))" \
		>$$(echo $@/lib/python3*/site-packages)/beside.pth
	$(LOCKED) mlflow wandb >$@/trackers.txt
	$(BIN)/pip --python $@/bin/python install -q --disable-pip-version-check --no-compile --no-deps \
		--require-hashes -r $@/trackers.txt
	@touch $@

# Started by the tests themselves, on loopback, never as services.
servers:
	@sh tests/install_servers.sh

# Hosts in containers are made with debootstrap and systemd-nspawn. With `make -j` it waits for servers: apt has one lock.
host-tools: $(filter servers,$(MAKECMDGOALS))
	@sh tests/hosts/install_tools.sh

demo: setup
	$(BIN)/roambench demo

demo-full: setup
	$(BIN)/roambench run experiments/demo_full.toml --fleet local

check: test-setup check-protos
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	# A worker that has not started after 3 seconds ends mypy: on a busy machine it checks alone.
	$(BIN)/mypy -n $(WORKERS) || $(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python packaging/plain_english.py

# What a change breaks first. Folders of code that neither waits nor starts processes; files that do are marked.
PURE := $(addprefix tests/unit/,aggregation contract energy experiment extras/papers extras/traces identity live mobility report rounds runs spool systems vectors written)
quick: check
	$(BIN)/pytest -q -n $(WORKERS) --dist loadfile -m "not lengthy and not slow and not hardware and not hosts and not alone" $(PURE)

# Tests start hundreds of processes: each of them would compile all its sources, and pytest rewrite all tests.
unexport PYTHONDONTWRITEBYTECODE
# In a random order of files and tests, tests/local first: by the number of tests, as is usual, files of one long run
# are last. ORDER=N repeats the order of a run that printed --randomly-seed=N.
ORDER ?= $(shell date +%s)
SPREAD := --dist loadfile --no-loadscope-reorder --randomly-seed=$(ORDER)
# The pure packages by their own tests, two at once; CI measures in this one run how much of them these reach, branches
# included: below the floor in pyproject.toml it fails (`make coverage` is the same for people). Then the rest, of
# which much waits for device time or a browser: four files at once keep two cores busy. What measures the machine is
# alone.
USUAL := not slow and not hardware and not hosts and not alone
TOGETHER = $(BIN)/pytest $(SPREAD) -m "$(USUAL)"
test: test-alone
.PHONY: test-pure test-rest test-alone
test-pure: check servers
	$(TOGETHER) -q $(if $(CI),--cov) -n $(WORKERS) --durations=15 $(PURE)
test-rest: test-pure
	$(TOGETHER) -n $$(($(WORKERS) * 2)) --durations=40 $(addprefix --ignore=,$(PURE))
# `make -j2 test test-hosts` (.ci/run): hosts beside the others, none beside these.
test-alone: test-rest $(filter test-hosts,$(MAKECMDGOALS))
	$(BIN)/pytest --randomly-seed=$(ORDER) --durations=15 -m "alone and not slow and not hardware" tests/local

coverage: test-setup
	$(BIN)/pytest -q -n $(WORKERS) $(SPREAD) --cov -m "$(USUAL)" $(PURE)

# In the order of the files: three hosts are provisioned once, and a test finds them as others left them.
test-hosts: test-setup host-tools
	$(BIN)/pytest -p no:randomly --durations=15 -m "hosts and not slow" tests/hosts

test-all: check servers
	$(BIN)/pytest -n $(WORKERS) $(SPREAD) -m "not hardware and not hosts and not alone"
	$(BIN)/pytest -m "alone and not hardware" tests/local
	@sh tests/hosts/install_tools.sh arm64
	$(BIN)/pytest -m hosts tests/hosts

protos: test-setup
	$(BIN)/python -m grpc_tools.protoc -I protos --python_out=protos --pyi_out=protos \
		roambench/wire/v1/control.proto roambench/wire/v1/data.proto roambench/wire/v1/peer.proto

# The committed stubs are what the .proto files say (regenerated beside and compared), and they load under both
# majors of protobuf that may be installed: 6, which the lock has for grpcio-tools' sake, and 7.
check-protos: test-setup build/protobuf
	@rm -rf build/protos && mkdir -p build/protos
	@$(BIN)/python -m grpc_tools.protoc -I protos --python_out=build/protos --pyi_out=build/protos \
		roambench/wire/v1/control.proto roambench/wire/v1/data.proto roambench/wire/v1/peer.proto
	@for file in build/protos/roambench/wire/v1/*; do \
		diff -q $$file $(WIRE)/$$(basename $$file) >/dev/null || \
		{ echo "$(WIRE)/$$(basename $$file) is stale: make protos"; exit 1; }; done
	@$(BIN)/python -W error packaging/load_stubs.py 6
	@PYTHONPATH=build/protobuf $(BIN)/python -W error packaging/load_stubs.py 7

PROTOBUF_7 := protobuf==7.36.2 --hash=sha256:bdb3a345d48db958e6ce1f18e508beb0cc981d64f24088427549c866cd039f1e
build/protobuf: $(LOCK)
	@rm -rf $@ && mkdir -p $@
	@echo "$(PROTOBUF_7)" | $(INSTALL) --no-deps --require-hashes --target $@ -r /dev/stdin

# Links, anchors and the order of pages are checked (packaging/mkdocs.yml), then the site in a Chromium where there is one; nothing is
# fetched once what they need is installed.
docs: test-setup $(VENV)/.docs
	@$(BIN)/python packaging/site.py
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build -q -f packaging/mkdocs.yml
	@$(BIN)/pytest -q --no-header -p no_skips packaging/test_built_site.py
	@echo "build/site/index.html"

# docs/images: runs the longer demo where build/pictures/runs is missing (minutes), and takes its pictures (20 s; wants a Chromium).
pictures: test-setup
	$(BIN)/python packaging/pictures.py

# The example report is never an older release's: it is made of a new run.
release: test-setup servers
	rm -rf build/pictures
	$(MAKE) pictures
	$(MAKE) docs

$(VENV)/.docs: $(VENV)/.ready
	$(LOCKED) docs >$(VENV)/docs.txt
	$(INSTALL) --no-compile --require-hashes -r $(VENV)/docs.txt
	@touch $@

# After a change of pyproject.toml or packaging/lock.in.
lock:
	$(PYTHON) -m venv build/lock
	build/lock/bin/pip install -q --disable-pip-version-check uv==0.13.9
	sh packaging/lock.sh build/lock/bin/uv
	cd packaging && ../build/lock/bin/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-deps \
		--no-header --no-annotate -o flower.txt flower.in

# Goes on where it was stopped today; NAMES="rounds agents" runs these again. What each prints: build/bench.
bench: test-setup $(if $(PEERS),build/peers)
	@$(BIN)/python benchmarks/bench.py $(if $(FULL),--full) \
		$(if $(PEERS),--flower build/peers/flower/bin/python --pfl build/peers/pfl/bin/python) $(NAMES)

# Flower and pfl, which benchmarks are measured against, as their own users install them: nothing of these is in the lock.
build/peers: $(VENV)/.ready
	@rm -rf $@
	for peer in flower pfl; do $(BIN)/python -m venv $@/$$peer && sh packaging/torch.sh $@/$$peer/bin/pip || exit 1; done
	$@/flower/bin/pip install -q --disable-pip-version-check torch numpy "flwr[simulation]==1.41.0"
	$@/pfl/bin/pip install -q --disable-pip-version-check torch numpy pfl==0.6.0
	@touch $@

# Goes on where it was stopped; pages in build/results.
reproduce: setup
	$(BIN)/roambench reproduce --scale $(SCALE) --jobs $(WORKERS)

# Puts the same runs' figures into docs/results; CHECK=--check compares them with those instead.
verdicts: setup
	$(BIN)/roambench reproduce --scale $(SCALE) --jobs $(WORKERS) --verdicts docs/results $(CHECK)

FAULTS ?= 1000
SEED   ?= 1
soak: test-setup servers
	$(BIN)/python benchmarks/soak.py --faults $(FAULTS) --seed $(SEED) --jobs $(WORKERS)

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
