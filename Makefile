# A thin front for the CMake presets. Every target sets up what it needs (scripts/setup.sh).
#
#   make demo      build, run the heatmap U-Net on held-out images, write out/demo.png
#   make train-demo  trains a smaller heatmap U-Net on the CPU in minutes, draws its curves and what it finds into out/train-demo
#   make test      whether this build works, without a GPU: unit, CLI and package tests, kernels on an emulated GPU, seeded faults, Python
#   make check     what CI runs besides: sanitizers, fuzzers (FUZZ=SECONDS: longer), more kernels on the emulated GPU, more of Python
#   make test-python  all tests of the Python package, long ones too (PyTorch and others' networks are downloaded once: 2 GB)
#   make test-gpu  the tests that need a GPU (Hopper); GPU_TESTS=… and HOST_STEP_TESTS=… run programs that were built elsewhere
#   make long-gpu  2,000 random problems over all that the GPU takes, then a million launches of their kernels; GPU_TESTS as above
#   make long-plans  all kernels that the planners of products, attention and tensors may choose, and the pairs of parameters of
#                  convolutions, by NVRTC (no GPU); goes on where it stopped; GPU_TESTS as above
#   make networks  over 400 networks of others, exported to ONNX: right, refused or wrong beside PyTorch in float64 (8 GB of packages)
#                  and, with NETWORKS=--times on an idle machine, beside ONNX Runtime's time
#   make networks-gpu  the same on a GPU (Hopper): right by PyTorch's own error in bf16 and f16, and timed beside it
#   make long-networks  100,000 random networks: Unisono on the CPU beside its float64 reference and ONNX Runtime; goes on where it stopped
#   make long-networks-gpu  3,000 of them, with at least 3,000 kernels, on a GPU (Hopper)
#   make long-modules  3,000 random PyTorch modules, compared with eager mode and float64; goes on where it stopped
#   make bench     Unisono beside its peers on this machine's CPU, into bench/results/cpu.json
#   make bench-gpu  Unisono beside cuDNN and PyTorch on a GPU (Hopper), into bench/results/; GPU_BENCH=… runs a program built elsewhere
#   make pack      kernels of the demo's model and of the standard shapes, compiled ahead into build/pack (needs NVRTC, no GPU)
#   make docs      the site of docs/, with references of C++ and Python, into build/docs/html
#   make lint      clang-format and clang-tidy
#   make long      the long runs: 200,000 random graphs, 200 kill storms of the kernel cache, tests 100 times under load, ten minutes of fuzzing

JOBS ?= $(shell nproc)
BUILD := build
CTEST := ctest --output-on-failure --no-tests=error
FUZZ ?= fixed
# CMake and Ninja, where scripts/setup.sh has them from PyPI
export PATH := $(or $(UNISONO_DEPS_DIR),$(HOME)/.cache/unisono/deps/venv)-tools/bin:$(PATH)

.PHONY: pack demo train-demo test check test-python test-gpu long-gpu long-plans long-networks long-networks-gpu long-modules networks networks-gpu bench bench-gpu docs lint long build clean

build:
	@echo "== what the build needs (a minute where it is not installed)"
	@scripts/setup.sh build
	@echo "== the library and the command (four minutes of two cores, seconds where a compiler cache has them)"
	@cmake --preset release -DUNISONO_TESTS=OFF -DUNISONO_BENCH=OFF -DUNISONO_EXAMPLES=OFF -DUNISONO_JOIN=ON -B $(BUILD)/demo >$(BUILD)-configure.log 2>&1 || (cat $(BUILD)-configure.log; false)
	@rm -f $(BUILD)-configure.log
	@cmake --build $(BUILD)/demo -j $(JOBS)

demo: build
	@echo "== the demo"
	@$(BUILD)/demo/tools/unisono/unisono demo --model models/heatmap_unet --out out

# What is there already stays: the scenes, and a checkpoint from which it goes on
TRAIN_DEMO := $(BUILD)/train-demo
TRAIN_STEPS ?= 1500
TRAIN_PYTHON = $(or $(UNISONO_DEPS_DIR),$(HOME)/.cache/unisono/deps/venv)-train/bin/python

train-demo: build
	@scripts/setup.sh build train
	@echo "== scenes (a minute, once)"
	@$(TRAIN_PYTHON) models/heatmap_unet/train_demo.py $(TRAIN_DEMO) --steps $(TRAIN_STEPS)
	@echo "== training"
	@$(BUILD)/demo/tools/unisono/unisono train $(TRAIN_DEMO)/train.json $$(test -e $(TRAIN_DEMO)/run/checkpoint.safetensors && echo --resume)
	@mkdir -p out/train-demo && cp $(TRAIN_DEMO)/run/model.onnx $(TRAIN_DEMO)/model/ && cp $(TRAIN_DEMO)/run/curves.png out/train-demo/
	@echo "== the held-out scenes"
	@$(BUILD)/demo/tools/unisono/unisono demo --model $(TRAIN_DEMO)/model --out out/train-demo

# The standard shapes: those of the benchmark that are convolutions and products by our own kernels
PACK_CASES := conv block untuned wide groups depthwise epilogue gemm swiglu rows breadth nchw

# cmake -DUNISONO_PACK=build/pack installs it with the library, scripts/kernels_wheel.sh build/pack makes a wheel of it
pack: build
	@$(BUILD)/demo/tools/unisono/unisono pack models/heatmap_unet --dim batch=1 --out $(BUILD)/pack
	@$(BUILD)/demo/tools/unisono/unisono pack $(PACK_CASES:%=bench/cases/%.txt) --out $(BUILD)/pack

test:
	@scripts/setup.sh build test python
	@scripts/test.sh test $(JOBS)

check:
	@scripts/setup.sh build test python docs
	@scripts/test.sh check $(JOBS) $(FUZZ)

# PYTEST: arguments of pytest, such as PYTEST="-k conv2d"
test-python:
	@scripts/setup.sh build test python
	@mkdir -p $(BUILD)/ci && cmake --preset ci >/dev/null && scripts/python_tests.sh $(BUILD)/ci $(JOBS) $(PYTEST)

GPU_TESTS ?= $(BUILD)/cuda/tests/gpu/unisono_gpu_tests
HOST_STEP_TESTS ?= $(BUILD)/cuda/tests/host_steps/unisono_host_step_tests
ENDURANCE ?= 20000

$(BUILD)/cuda/tests/gpu/unisono_gpu_tests:
	@scripts/setup.sh build test
	@cmake --preset cuda && cmake --build $(BUILD)/cuda -j $(JOBS) --target unisono_gpu_tests unisono_host_step_tests

# GPU_TESTS may name a program that was built elsewhere
test-gpu:
	@command -v nvidia-smi >/dev/null && nvidia-smi -L || { echo "make test-gpu: this machine has no NVIDIA GPU; run it on one (Hopper)"; exit 1; }
	@if [ "$(GPU_TESTS)" = "$(BUILD)/cuda/tests/gpu/unisono_gpu_tests" ]; then $(MAKE) -B $(GPU_TESTS); fi
	@$(GPU_TESTS)
	@$(HOST_STEP_TESTS)
	@$(GPU_TESTS) --endurance $(ENDURANCE)
	@$(GPU_TESTS) --endurance $$(( $(ENDURANCE) / 4 )) --delays --processes 4

PROBLEMS ?= 2000
LAUNCHES ?= 1000000

long-gpu:
	@command -v nvidia-smi >/dev/null && nvidia-smi -L || { echo "make long-gpu: this machine has no NVIDIA GPU; run it on one (Hopper)"; exit 1; }
	@if [ "$(GPU_TESTS)" = "$(BUILD)/cuda/tests/gpu/unisono_gpu_tests" ]; then $(MAKE) -B $(GPU_TESTS); fi
	@$(GPU_TESTS) --broad $(PROBLEMS)
	@$(GPU_TESTS) --broad $(PROBLEMS) --endurance $(LAUNCHES)
	@$(GPU_TESTS) --broad $(PROBLEMS) --endurance $$(( $(LAUNCHES) / 4 )) --delays

# NETWORKS: options, such as --only REGEX. NETWORKS_PYTHON may name a Python that has the packages of scripts/requirements-networks.txt
networks:
	@scripts/setup.sh build $(if $(NETWORKS_PYTHON),,networks)
	@cmake --preset release -DUNISONO_TESTS=OFF -DUNISONO_BENCH=OFF -DUNISONO_EXAMPLES=OFF -DUNISONO_JOIN=ON -B $(BUILD)/demo >/dev/null && cmake --build $(BUILD)/demo -j $(JOBS)
	@scripts/networks.sh $(BUILD)/demo/tools/unisono/unisono $(BUILD)/networks $(NETWORKS)

# NETWORKS: as above, for python -m networks.gpu. NETWORKS_PYTHON must have a PyTorch that finds the GPU
networks-gpu:
	@command -v nvidia-smi >/dev/null && nvidia-smi -L || { echo "make networks-gpu: this machine has no NVIDIA GPU; run it on one (Hopper)"; exit 1; }
	@scripts/setup.sh build $(if $(NETWORKS_PYTHON),,networks)
	@cmake --preset release -DUNISONO_TESTS=OFF -DUNISONO_EXAMPLES=OFF -B $(BUILD)/release >/dev/null && cmake --build $(BUILD)/release -j $(JOBS) --target tools/unisono/unisono unisono_bench_onnx
	@NETWORKS_MODULE=networks.gpu scripts/networks.sh $(BUILD)/release/tools/unisono/unisono $(BUILD)/networks-gpu --times $(BUILD)/release/bench/unisono_bench_onnx --losses docs/notes/losses.md --commit "$$(git rev-parse --short=8 HEAD)" $(NETWORKS)

# SECONDS_OF_PLANS: seconds after which it ends; a later call goes on
SECONDS_OF_PLANS ?= 0

long-plans:
	@if [ "$(GPU_TESTS)" = "$(BUILD)/cuda/tests/gpu/unisono_gpu_tests" ]; then $(MAKE) -B $(GPU_TESTS); fi
	@$(GPU_TESTS) --walk $(BUILD)/plans --jobs $(JOBS) --seconds $(SECONDS_OF_PLANS)

RANDOM_NETWORKS ?= 100000
RANDOM_NETWORKS_GPU ?= 3000
SEED ?= 0

long-networks:
	@scripts/setup.sh build test
	@scripts/random_networks.sh $(BUILD) --count $(RANDOM_NETWORKS) --first $(SEED) --jobs $(JOBS)

long-networks-gpu:
	@command -v nvidia-smi >/dev/null && nvidia-smi -L || { echo "make long-networks-gpu: this machine has no NVIDIA GPU; run it on one (Hopper)"; exit 1; }
	@scripts/setup.sh build test
	@scripts/random_networks.sh $(BUILD) --gpu bf16 --count $(RANDOM_NETWORKS_GPU) --kernels $(RANDOM_NETWORKS_GPU) --first $(SEED) --jobs $(JOBS)

RANDOM_MODULES ?= 3000

# MODULES: options of scripts/random_modules.py, such as --rest inductor or --device cuda
long-modules:
	@scripts/setup.sh build test python
	@mkdir -p $(BUILD)/ci && cmake --preset ci >/dev/null && scripts/random_modules.sh $(BUILD)/ci $(JOBS) --count $(RANDOM_MODULES) --seed $(SEED) $(MODULES)

ONEDNN := $(or $(UNISONO_DEPS_DIR),$(HOME)/.cache/unisono/deps/venv)-onednn

bench:
	@scripts/setup.sh build bench
	@scripts/onednn.sh $(ONEDNN) $(JOBS)
	@cmake --preset release -DUNISONO_DNNL_DIR=$(ONEDNN) && cmake --build $(BUILD)/release -j $(JOBS)
	@bench/run.sh

GPU_BENCH ?= $(BUILD)/cuda/bench/unisono_gpu_bench
SUITES ?= conv block epilogue gemm breadth groups depthwise
PLANS ?= 8

# GPU_BENCH may name a program that was built elsewhere; of PyTorch's python, PYTHON
bench-gpu:
	@command -v nvidia-smi >/dev/null && nvidia-smi -L || { echo "make bench-gpu: this machine has no NVIDIA GPU; run it on one (Hopper)"; exit 1; }
	@if [ "$(GPU_BENCH)" = "$(BUILD)/cuda/bench/unisono_gpu_bench" ]; then scripts/setup.sh build && cmake --preset cuda && cmake --build $(BUILD)/cuda -j $(JOBS) --target unisono_gpu_bench; fi
	@$(or $(PYTHON),python3) bench/run_gpu.py --binary $(GPU_BENCH) --plans $(PLANS) $(SUITES)

docs:
	@scripts/setup.sh build docs
	@scripts/docs.sh $(JOBS)

lint:
	@scripts/setup.sh build test
	@scripts/lint.sh

long:
	@scripts/setup.sh build test
	@scripts/long.sh

clean:
	rm -rf $(BUILD) out
