# symd: `make demo` shows it working, `make test` checks it. Everything is set up on the way.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Where it is set, every start of symd compiles all of its modules again, and the tests start it a thousand times.
unexport PYTHONDONTWRITEBYTECODE

# What is compiled when symd is installed, its core, and when it captures takes a compiler and headers.
COMPILER_PACKAGES := gcc libc6-dev python3-dev
# What the demo needs of Debian: a virtual environment, Intel's real drivers (they run without hardware), their loaders; a program that is captured.
DEMO_PACKAGES := python3-venv $(COMPILER_PACKAGES) intel-opencl-icd libze1 ocl-icd-libopencl1 clinfo
# What the generated clients in C++, Go and TypeScript are made with (samples/clients/*/build).
STUB_PACKAGES := g++ pkg-config libgrpc++-dev libprotobuf-dev libssl-dev protobuf-compiler protobuf-compiler-grpc protoc-gen-go-1-5 protoc-gen-go-grpc \
	golang-github-golang-protobuf-1-5-dev golang-google-grpc-dev golang-google-genproto-dev nodejs:node npm:npm
# What the tests need besides: the tools that every reader is compared with, and the compilers of generated binaries.
TEST_PACKAGES := $(DEMO_PACKAGES) libze-dev opencl-headers libigc-tools llvm clang lld llvm-14 clang-14 clang-tools-14 lld-14 llvm-19 clang-tools-19 llvm-22 \
	clang-tools-22 llvm-spirv-14 spirv-tools glslang-tools golang-go gcc-12-offload-amdgcn gcc-12-offload-nvptx chromium binutils elfutils gdb lldb-19 debuginfod openssl systemd postgresql nginx jq clpeak $(STUB_PACKAGES)

.PHONY: demo python test compiled check protos clients samples lock docs dist screenshots editor bench bench-batch fuzz soak abuse kill replicas survey live-new clean venv drivers tools help

help:  ## what can be made
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 12

demo: drivers venv  ## grab from both real drivers and ask for source lines over gRPC
	$(BIN)/python samples/clients/demo.py

# Three workers on two processors: some tests wait for limits of time, disks and daemons that end.
test: tools venv check compiled  ## linters, types, then every test
	$(BIN)/python -m pytest -q -n 3

# Written once, and not by each worker of pytest at the same time; meanwhile Debian's packages come (make -j2).
compiled: $(VENV)/.collected
	$(BIN)/python -m compileall -q symd

# Of a new environment pytest rewrites every module of the tests; later those alone that were changed, which is quick.
$(VENV)/.collected: $(VENV)/.installed
	$(BIN)/python -m pytest -q --collect-only >/dev/null || true  # the tests themselves tell what is wrong
	touch $@

check: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python tools/buf.py
	$(BIN)/python tools/audit.py

protos: venv  ## generate symd/v1 from protos/
	$(BIN)/python tools/protos.py

clients: venv  ## generate the clients without an event loop from those with one
	$(BIN)/python tools/sync_clients.py

samples: tools venv  ## build the binaries of samples/ again
	$(BIN)/python samples/kernels/build.py

lock: venv  ## choose the versions of requirements.lock again
	$(BIN)/python -m piptools compile --quiet --extra dev --extra otel --extra mcp --extra data --extra shared --generate-hashes --allow-unsafe --strip-extras --no-header \
		--no-emit-index-url --no-emit-find-links --no-emit-trusted-host --output-file requirements.lock pyproject.toml

docs: venv  ## the pages of the API from the protos, and the documentation as a site, in build/site
	$(BIN)/python tools/api_pages.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs --quiet build --strict

dist: venv  ## a wheel and a source distribution, in dist/
	$(BIN)/python -m build

bench: venv  ## symd beside its peers; writes benchmarks/RESULTS.md
	$(BIN)/python -m compileall -q symd  # what is not compiled is, by each process that is measured, anew
	$(BIN)/python -m benchmarks

bench-batch: venv  ## a hundred million samples in Parquet: symd batch, Ray and DuckDB, which give the same frames
	$(BIN)/python -m benchmarks.batch

screenshots: venv tools  ## the pictures in docs/images, made anew; CONTRIBUTING.md says where the profile viewers come from
	$(BIN)/python -m tests.server.http.screenshots
	$(BIN)/python -m tests.profiles.viewer_screenshots

editor: venv tools  ## the extension of samples/vscode driven in VS Code (code-server from npm, 150 MB), with its picture in docs/images
	$(BIN)/python -m pytest -q tests/sample_clients/real_editor.py

SECONDS_LONG ?= 300
fuzz: venv  ## mutated files and requests for SECONDS_LONG seconds; what is found goes to build/fuzz
	$(BIN)/python -m tests.fuzz --seconds $(SECONDS_LONG)

soak: venv tools  ## a daemon under mixed clients, killed ones among them, for SECONDS_LONG seconds
	$(BIN)/python -m tests.soak --seconds $(SECONDS_LONG)

abuse: venv tools  ## 200 clients, half of them behind nginx, for SECONDS_LONG seconds while workers are killed, bytes changed and the disk is full
	$(BIN)/python -m tests.soak.abuse --seconds $(SECONDS_LONG)

KILLS ?= 500
kill: venv  ## a store whose user is killed KILLS times in the midst of work: what was acknowledged is there, nothing else is left; and a watch over a daemon that is killed
	$(BIN)/python -m tests.kill --kills $(KILLS)
	$(BIN)/python -m tests.kill.follow --loads 400 --kills 20

replicas: venv  ## three daemons over PostgreSQL and S3, one after the other killed under load for SECONDS_LONG seconds
	$(BIN)/python -m tests.store.shared.replicas $(SECONDS_LONG)

ONLY ?=
survey: tools venv  ## symd on real packages beside other tools, into docs/formats.md; ONLY="NAME..." for some (tests/survey/artefacts.py)
	$(BIN)/python -m tests.survey $(ONLY)

live-new: tools venv  ## the newer driver generation, below .cache: set up, then the live tests against it
	$(BIN)/python tools/live_new.py setup
	$(BIN)/python tools/live_new.py test

drivers: | python
	@tools/debian-packages $(DEMO_PACKAGES)

tools: | python
	@tools/debian-packages $(TEST_PACKAGES)

# Before the rest is installed: the environment with the compiled core, and the checks, which need nothing of Debian besides, are then made meanwhile (make -j2).
HAS_HEADERS := import os, sysconfig; os.stat(os.path.join(sysconfig.get_path("include"), "Python.h"))
python:
	@command -v $(PYTHON) >/dev/null || tools/debian-packages python3
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || tools/debian-packages python3-venv
	@command -v gcc >/dev/null && $(PYTHON) -c '$(HAS_HEADERS)' 2>/dev/null || tools/debian-packages $(COMPILER_PACKAGES)

venv: $(VENV)/.installed

$(VENV)/.installed: requirements.lock pyproject.toml setup.py $(wildcard symd/core/*.py symd/core/*.pxd) | python
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --config-settings editable_mode=compat -e .
	touch $@

clean:
	rm -rf $(VENV) .cache build dist *.egg-info
