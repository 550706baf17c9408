# The front door: `make help` lists what it opens. Everything is built by CMake (CMakePresets.json) under build/.
SETUP ?= scripts/setup
JOBS := $(shell nproc 2>/dev/null || echo 2)
CTEST := ctest --output-on-failure --no-tests=error --parallel $(JOBS)
# The thread sanitizer needs the usual places in memory, which newer kernels randomise further than it can follow; the fuzzer
# tries the same inputs each time only where addresses are the same.
PLAIN_MEMORY := $(shell setarch -R true 2>/dev/null && echo setarch -R)

# How long each parser is fuzzed: an option of libFuzzer. `make check` gives a number of runs instead of a time: what it tries,
# and so whether a change passes, does not depend on how fast the machine is.
FUZZ ?= -max_total_time=60

# Tests of labelled programs that compare values, not threads, and fp32 where bf16 shares the same way: slow under the
# thread sanitizer, and run elsewhere.
ONE_THREAD_IS_ENOUGH := EqualsTheReference|OtherRows|DryKernels|PlainLoop|AnotherGrain|portable|_fp32

# Tests compute on the processor, also where there is a GPU; `make test-gpu` is for that.
test test-avx2 sanitize threads: export ACCRUE_TEST_DEVICE = cpu

.DEFAULT_GOAL := help
.PHONY: help train build test test-avx2 test-gpu test-gpu-folder check sanitize threads headers lint fuzz format counts counts-update setup setup-check clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

train: build ## a complete run on built-in data; ARGS="--set schedule.steps=50" passes options on
	build/release/accrue train $(ARGS)

build: setup build/release/build.ninja ## the program: build/release/accrue
	@cmake --build build/release --target accrue

test: build ## all tests, as users run the program
	@cmake --build build/release
	$(CTEST) --test-dir build/release

test-gpu: build ## the tests on this machine's GPU; skipped, visibly, where there is none
	@scripts/test_gpu here || [ $$? -eq 77 ]

test-gpu-folder: build ## the same in a folder for a machine where nothing can be installed: build/gpu-tests
	@cmake --build build/release --target gpu_tests
	@scripts/test_gpu pack build/gpu-tests

# Mistakes in what a user types read the same on every processor.
test-avx2: build ## the quick tests that compute, as on a processor with AVX2 and no more
	@cmake --build build/release --target quick_tests
	ACCRUE_TEST_INSTRUCTION_SET=avx2 $(CTEST) --test-dir build/release --label-regex processor --exclude-regex '^ErrorsTest'

check: setup-check ## what a change must pass: sanitizers, thread sanitizer, layout, headers, lint, fuzzing
	scripts/format check
	scripts/headers
	@$(MAKE) --no-print-directory sanitize threads lint fuzz FUZZ=-runs=30000

sanitize: setup-check build/dev/build.ninja ## the quick tests under address and undefined-behaviour sanitizers
	@cmake --build build/dev --target quick_tests
	$(CTEST) --test-dir build/dev --label-exclude slow --exclude-regex _NOT_BUILT

threads: setup-check build/threads/build.ninja ## the tests labelled threads under the thread sanitizer
	@$(PLAIN_MEMORY) cmake --build build/threads --target thread_tests
	$(PLAIN_MEMORY) $(CTEST) --test-dir build/threads --label-regex threads --exclude-regex '$(ONE_THREAD_IS_ENOUGH)'

headers: setup-check ## every header compiles alone, so that it includes what it uses
	scripts/headers

lint: setup-check ## clang-tidy over the sources
	scripts/lint

fuzz: setup-check build/fuzz/build.ninja ## every parser on damaged files, a minute each; FUZZ=-max_total_time=600 for ten
	@cmake --build --preset fuzz
	$(PLAIN_MEMORY) scripts/fuzz build/fuzz/tests/fuzz/fuzz $(FUZZ)

format: setup-check ## lays out all C++ files
	scripts/format

counts: build ## instructions for each element of the hot loops, as a test compares them
	@cmake --build build/release --target hot_loops
	@scripts/counts print build/release/hot_loops

counts-update: build ## the same, written to bench/expected_counts.txt after an intended change
	@cmake --build build/release --target hot_loops
	@scripts/counts update build/release/hot_loops

clean: ## removes build/, keeps runs/
	rm -rf build

setup:
	@$(SETUP)

setup-check:
	@$(SETUP) check

# Ninja calls CMake again by itself when a build file changes.
build/%/build.ninja: CMakePresets.json | setup
	@cmake --preset $*
	@touch $@
