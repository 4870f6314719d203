# Two commands for a machine with Debian 12, git and make: `make demo` and `make test`.
.PHONY: help build install test test-all demo bench measure reproduce fit check sbom clean
JOBS ?= $(shell nproc)
PREFIX ?= /usr/local
export JOBS

help:
	@echo "make demo      install what is missing, build, train a model on English text, let it write"
	@echo "make test      install what is missing, build and run the test suite (test-all: slow tests too)"
	@echo "make build     the release program: build/trireme"
	@echo "make install   program, manual page, completions and library below PREFIX (/usr/local)"
	@echo "make bench     the benchmarks"
	@echo "make measure   figures of several ranks and hosts, on a machine that nobody else uses"
	@echo "make reproduce published training runs: measured, predicted, error"
	@echo "make fit       the free numbers of an A100 and an H100, from measured kernels and collectives"
	@echo "make check     layers, format, build and tests of one preset: before every commit"
	@echo "make sbom      the packages that the program is made of: build/trireme.spdx"
	@echo "make clean     remove build/"
	@echo "JOBS=N limits how many compilers run at once; LARGE=1 gives the demo more text"

build:
	@tools/install_packages.sh build
	@cmake --preset release >/dev/null
	@ninja -C build/release -j$(JOBS) trireme
	@ln -f build/release/trireme build/trireme

install:
	@tools/install_packages.sh build
	@cmake --preset release >/dev/null
	@ninja -C build/release -j$(JOBS) trireme trireme_library trireme_manual
	@cmake --install build/release --prefix $(PREFIX)

test:
	@tools/install_packages.sh test
	@tools/test.sh

test-all:
	@tools/install_packages.sh test
	@tools/test.sh all

demo:
	@tools/install_packages.sh demo $(if $(LARGE),large)
	@$(MAKE) --no-print-directory build
	@DEMO_LARGE=$(LARGE) tools/demo.sh

bench:
	@tools/install_packages.sh test
	@tools/bench.sh

measure:
	@tools/install_packages.sh test
	@tools/install_packages.sh measure
	@tools/measure.sh

reproduce: build
	@build/trireme reproduce

fit:
	@tools/install_packages.sh build
	@cmake --preset ci >/dev/null
	@ninja -C build/ci -j$(JOBS) fit_prices
	@build/ci/bench/fit_prices

check:
	@tools/install_packages.sh test
	@tools/check.sh

sbom: build
	@tools/sbom.sh build/release >build/trireme.spdx.new
	@mv build/trireme.spdx.new build/trireme.spdx
	@echo "build/trireme.spdx: $$(grep -c '^PackageName' build/trireme.spdx) packages"

clean:
	rm -rf build
