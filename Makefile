# Makefile: the tasks of people and CI. Every target installs what it needs (root or sudo, Debian 12; see
# scripts/bootstrap.sh). `make` alone prints the table of targets.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# GO is a Go that is new enough: the one on PATH, or one downloaded into .cache.
GO := scripts/go
BOOTSTRAP := scripts/bootstrap.sh

# RACE_PACKAGES run under the race detector, e.g. make test-race RACE_PACKAGES=./verbs/shm/... Packages of
# RACE_NOT do not: they and their tests start no goroutine (archtest checks that), so make test covers them,
# beside all others; daemons of endtoend are processes that share memory, which race builds cannot. The race run
# needs no profile (-pgo=off): with one, all that drtmd links is compiled twice. Tests of other packages skip
# simulated machines (package raceskip). RACE_SEARCH are tests of searches on several cores. RACE_AT_ONCE
# packages run at a time: their tests wait for leases and time limits more than they compute, those of RACE_FIRST
# for the longest.
RACE_PACKAGES ?= ./...
RACE_NOT := drtmd/(cmd/drtmd/internal/(composition|config|daemon/data|endtoend|inventory|pace|report|reproduce|$\
	spelling|status|transport|workloads)|$\
	htm/(bloom|directory)|internal/(durable|hostmem|mutation|testkit/archtest)|proto|$\
	proto/(check|chop|hades(/hardware)?|member|member/membersim|occ/(dandelion|drtmh|drtmocc|drtmr)|onesided|option|$\
	placement|protocol|recovery|rtx/(dtx|inplace|race)|scenario)|proto/(workload(/.*)?|xenic(/nics)?)|$\
	scripts/rxe-vm/hosts|store/(layout|nicindex|robinhood)|verbs/(internal/table|scenario|sim|smartnic))$$
RACE_FIRST := proto/member/etcdmember|proto/enginetest|internal/(cli|daemon)$$
RACE_AT_ONCE := 4
RACE_SEARCH := -run 'Search|Jobs' ./verbs/scenario
# PART=waiting makes test run only the tests that wait for leases and processes, PART=computing only those that compute.
PART ?=
# How long make soak searches, per fuzz target and per repeated stress test.
SOAK_TIME ?= 5m
# NATIVE=1 makes test-rxe use this machine's own rxe link instead of the virtual machine.
NATIVE ?=
# RXE=1 makes bench-replicas and bench-dandelion run in the virtual machine.
RXE ?=

.PHONY: help demo build install uninstall test test-race test-rxe lint bench bench-redis bench-verbs
.PHONY: conformance-diff bench-replicas bench-dandelion bench-dlht bench-ford bench-memory bench-tpcc bench-scaling test-browser verify-clone soak clean

help: ## print this table
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' Makefile

demo: build ## build, run transactions on four daemons with three replicas, kill one, and check the run
	scripts/demo.sh

build: ## build bin/drtmd
	@$(BOOTSTRAP) build
	$(GO) build -o bin/drtmd ./cmd/drtmd

install: build ## install drtmd, units, man pages and completions (PREFIX=/usr/local)
	PREFIX="$(PREFIX)" DESTDIR="$(DESTDIR)" scripts/install.sh

uninstall: ## remove what make install installed
	PREFIX="$(PREFIX)" DESTDIR="$(DESTDIR)" scripts/install.sh --remove

test: build ## run every test that needs no virtual machine (9 to 10 minutes on 2 cores; PART=waiting, computing: a half)
ifneq ($(PART),computing)
	scripts/lib/packages_selftest.sh
	scripts/lib/install_selftest.sh
endif
	scripts/test.sh '$(RACE_NOT)' $(PART)

test-race: ## run the tests under the race detector
	@$(BOOTSTRAP) build
	$(GO) test -race -pgo=off -vet=off -count=1 -p $(RACE_AT_ONCE) $$($(GO) list $(RACE_PACKAGES) | \
	  grep -vE '$(RACE_NOT)' | awk '{ print /$(subst /,\/,$(RACE_FIRST))/ ? 1 : 2, $$1 }' | sort -sn -k1,1 | cut -d' ' -f2)
	$(GO) test -race -pgo=off -vet=off -count=1 $(RACE_SEARCH)

test-rxe: ## run tests on Soft-RoCE, in a virtual machine (NATIVE=1: on this machine)
	@$(BOOTSTRAP) build
	scripts/test-rxe.sh $(if $(NATIVE),--native)

test-browser: ## test the pages in a real browser (installs Chromium)
	@$(BOOTSTRAP) browser
	$(GO) test -pgo="$(CURDIR)/cmd/drtmd/default.pgo" -count=1 -tags browser \
	  -run "LivePage|PaperPage" ./cmd/drtmd/internal/admin ./cmd/drtmd/internal/reproduce

lint: ## check formatting, go vet, staticcheck, shellcheck and commit subjects
	@$(BOOTSTRAP) lint
	scripts/lint.sh

bench: build ## compare the cost of transactions under every protocol
	scripts/bench.sh

bench-replicas: build ## all protocols, with one and three copies of each record, five workloads (RXE=1: in the guest)
	scripts/bench-replicas.sh $(if $(RXE),--rxe)

bench-memory: build ## YCSB C on Soft-RoCE, rTX and its baselines on a memory node
	scripts/bench-replicas.sh --memory

bench-ford: build ## SmallBank, TATP and TPC-C on Soft-RoCE, one transaction in flight, beside FORD
	scripts/bench-replicas.sh --ford

bench-dandelion: build ## Dnl-4 beside FaSST, three copies of each record (RXE=1: in the guest)
	scripts/bench-replicas.sh --dandelion $(if $(RXE),--rxe)

bench-dlht: ## DLHT beside Go's map, sync.Map and xsync.Map, two threads (DLHT_KEYS=N: other than 10 million keys)
	@$(BOOTSTRAP) build
	DLHT_KEYS=$(or $(DLHT_KEYS),10000000) $(GO) test -pgo=off -run '^$$' -bench Against -benchtime 50x ./store/dlht

bench-tpcc: ## TPC-C under drtm on one thread, in pieces and whole, beside Silo and DBx1000
	@$(BOOTSTRAP) build
	DRTMD_TPCC_SECONDS=5 $(GO) test -pgo=$(CURDIR)/cmd/drtmd/default.pgo -run '^$$' -bench OneThread -benchtime 1x \
	  -count 3 ./proto/workload/tpcc

bench-redis: build ## compare SmallBank with SmallBank on a local Redis (installs Redis)
	scripts/bench-redis.sh

bench-scaling: build ## scaling of SmallBank from 1 to 6 simulated machines, beside DrTM
	scripts/bench-scaling.sh

bench-verbs: build ## compare verbs with perftest and with plain memory
	scripts/bench-verbs.sh

conformance-diff: ## check that shm and Soft-RoCE run the same conformance cases
	@$(BOOTSTRAP) build
	scripts/conformance-diff.sh

verify-clone: ## run the README's first commands in a fresh clone
	scripts/verify-clone.sh

soak: ## long searches: daemons for 10 minutes, fuzzing, stress tests (SOAK_TIME=5m each)
	@$(BOOTSTRAP) build
	scripts/soak.sh $(SOAK_TIME)

clean: ## remove build results; .cache (downloads) stays
	rm -rf bin
