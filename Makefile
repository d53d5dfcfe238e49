# For people; the build itself is Meson's (meson.build).
#
#   make            build               make check      all tests (T=word: only those named so)
#   make run        the demonstration   make bench      all benchmarks
#   make help       the rest
#
# SAN=address,undefined or SAN=thread works on a build of its own with those sanitizers.

SAN    ?=
PREFIX ?= /usr/local
JOBS   ?= 2
T      ?=
SKIPS  ?= allowed
AGAIN  ?= 0
ORDER  ?= readme

ifeq ($(SAN),)
BUILD ?= build
else ifeq ($(SAN),address,undefined)
BUILD ?= build-asan
else ifeq ($(SAN),thread)
BUILD ?= build-tsan
else
BUILD ?= build-$(subst $(comma),-,$(SAN))
endif

SETUP = --prefix=$(PREFIX) $(if $(SAN),-Db_sanitize=$(SAN) -Db_lundef=false)

.PHONY: all build run check check-asan check-bare check-fuzz check-k8s check-packages check-release check-restarts check-skew check-tsan
.PHONY: bench battery lint fuzz mutate deb dist image wheel install clean help
all: build

build:
	@tools/build $(BUILD) '$(SETUP)'

run:
	@tools/deps core
	@tools/build $(BUILD) '$(SETUP)' src/cli/dlcache
	@$(BUILD)/src/cli/dlcache demo

check:
	@tools/deps core test
	@$(MAKE) --no-print-directory build
	@tools/get-versitygw $(BUILD)
	@tools/get-pyarrow $(BUILD)
	@tools/get-azurite $(BUILD)
	@tests/run --build $(BUILD) -j $(JOBS) --skips $(SKIPS) --again $(AGAIN) $(T)

check-k8s:
	@tools/deps core test k8s
	@$(MAKE) --no-print-directory build
	@tools/get-k8s $(BUILD)
	@tools/get-helm $(BUILD)
	@tests/run --build $(BUILD) --k8s -j $(JOBS) --skips $(SKIPS) --again $(AGAIN) $(T)

check-bare:
	@tools/bare '$(if $(filter check,$(ORDER)),,make run && )make check'

check-packages:
	@tests/packages/run $(T)

check-restarts:
	@tools/deps core test
	@$(MAKE) --no-print-directory build
	@RESTARTS=100 tests/run --build $(BUILD) cluster/node-restarts-under-readers

check-skew:
	@tools/deps core test
	@$(MAKE) --no-print-directory build
	@tools/check-skew $(BUILD) $(BASE)

bench:
	@tools/deps core bench
	@$(MAKE) --no-print-directory build
	@tools/get-versitygw $(BUILD)
	@echo "Benchmarks:"; bench/run --list
	@set -e; for b in $$(bench/run --list | awk '{print $$1}'); do bench/run --build $(BUILD) $$b || [ $$? = 77 ]; done

battery:
	@tools/deps core bench
	@$(MAKE) --no-print-directory build
	@bench/battery --build $(BUILD)

# Tests with sanitizers and of a release build, each in a build directory of its own. tests/sets names the tests.
# Newer kernels randomise more bits of addresses than the runtimes of gcc 12 allow.
ASLR_OFF = $(shell setarch -R true 2>/dev/null && echo setarch -R)

check-asan: SAN = address,undefined
check-tsan: SAN = thread
check-asan check-tsan: check-%:
	@tools/deps core test
	@tools/build-set build-$* '$(SETUP)' tests/sets/$*
	@[ $* = tsan ] || tools/get-versitygw build-$*
	@$(ASLR_OFF) tests/run --build build-$* -j $(JOBS) --again $(AGAIN) --set tests/sets/$* $(T)

check-fuzz:
	@tools/deps core test sanitize
	@FUZZ_SECONDS=$${FUZZ_SECONDS:-3} JOBS=$(JOBS) tools/fuzz $(T)

check-release:
	@tools/deps core test
# Debian compiles libjpeg.a and libpng.a without CET: hardening is checked without them.
	@tools/build-set build-release '$(SETUP) --buildtype=release -Doptimization=2 -Dprivate_codecs=disabled' tests/sets/release
	@tools/check-hardening $(addprefix build-release/,src/cli/dlcache libdlcache.so python/dlcache/_dlcache.abi3.so)
	@tests/run --build build-release -j $(JOBS) --again $(AGAIN) --set tests/sets/release $(T)

lint: build
	@tools/lint $(BUILD)

fuzz:
	@JOBS=$(JOBS) tools/fuzz $(T)

# For example RANGE=main~5.. or FILE="src/order/order.c src/order/cursor.c"; without either: what differs from main.
MUTATE = $(if $(FILE),,--range $(or $(RANGE),main...)) $(if $(OPS),--ops $(OPS)) $(if $(COUNT),--count $(COUNT))
mutate: build
	@tools/mutate --build $(BUILD) -j $(JOBS) $(MUTATE) $(if $(OUT),--out $(OUT)) $(FILE)

dist:
	@tools/dist $(BUILD)

image:
	@tools/image

deb:
	@tools/deb $(BUILD)

wheel:
	@tools/wheel $(BUILD)/wheel

# Only what is installed: no tests, no benchmarks.
install:
	@tools/build $(BUILD) '$(SETUP)' src/cli/dlcache
	@tools/build $(BUILD) '$(SETUP)' $$(tools/installed-targets $(BUILD))
	meson install --no-rebuild -C $(BUILD)

clean:
	rm -rf build build-*/

help:
	@echo "make            build into build/"
	@echo "make run        the demonstration: a bucket, a cache, three epochs, a table"
	@echo "make check      lint and all tests; T='word word' picks tests by name; JOBS=2 at once"
	@echo "                a skip fails unless tests/allowed-skips names it; SKIPS=any accepts all"
	@echo "                AGAIN=5 runs up to five failed tests once more, each alone, and names those that pass then"
	@echo "make check-bare make run and make check in a bare Debian root (ORDER=check: make check alone; needs root)"
	@echo "make check-packages  build the packages, install each in a bare root, and use it (needs root)"
	@echo "make check-restarts  100 restarts of a node under reading jobs"
	@echo "make check-skew     manager, nodes and library of this commit with those of the last release (BASE=COMMIT), both ways"
	@echo "make check-k8s  the tests against a real Kubernetes API server (builds one the first time)"
	@echo "make check-asan     unit tests and some scenarios (tests/sets/asan) with AddressSanitizer and UBSan"
	@echo "make check-tsan     concurrent unit tests (tests/sets/tsan) with ThreadSanitizer"
	@echo "make check-fuzz     compile all with clang, then libFuzzer on every target for FUZZ_SECONDS=3"
	@echo "make check-release  a release build: hardening of its binaries, and a few tests (tests/sets/release)"
	@echo "make bench      all benchmarks, one table each (bench/run NAME for one)"
	@echo "make battery    what is too large for make check: 10 million chunks, 10,000 datasets, a consumer slow for minutes"
	@echo "make lint       formatting, layers, headers, tags, banned calls"
	@echo "make fuzz       run each fuzz target for a while (FUZZ_SECONDS=60; needs clang)"
	@echo "make mutate     mutation testing of files that commits changed (RANGE=main~5..) or of FILE=...; COUNT=30 of each;"
	@echo "                SAN=thread OPS=order,lock for memory order and locks (tools/mutate --help)"
	@echo "make deb        the Debian packages, into build/debian"
	@echo "make dist       the source archive, build/dlcache-VERSION.tar.xz"
	@echo "make image      the container image (needs root and podman; no registry)"
	@echo "make wheel      a wheel with its libraries inside, built in a bare root, in build/wheel (needs root)"
	@echo "make install    into PREFIX=/usr/local"
	@echo "make clean      remove every build directory"
	@echo "SAN=address,undefined or SAN=thread with any of them: a build with sanitizers"
	@echo "run, check and bench first install missing Debian packages when they are root"
