# Everything that a developer or CI runs. `make` lists the targets.
SHELL := /bin/bash
.DEFAULT_GOAL := help

VERSION  := $(shell sed -n 's/^\#\# \[\{0,1\}\([0-9][^], ]*\).*/\1/p' CHANGELOG.md | head -n 1)
REVISION := $(shell git rev-parse HEAD 2>/dev/null)
LDFLAGS  := -s -w -X main.version=$(VERSION) -X main.revision=$(REVISION)
# Packages with goroutines are tested under the race detector, the others without: it
# costs their pure code ten times the time and finds nothing there. The index has one
# writer; only its tests with readers beside it are worth that price.
RACE     := ./cluster/... ./router ./protocols/... ./core/commitlog/... ./cmd/...
PLAIN     = $(filter-out $(shell go list $(RACE)),$(shell go list ./...))
FUZZTIME ?= 20s
DATA     ?= data

.PHONY: help build run test unit check fmt lint docs fuzz bench bench-cluster bench-amqp bench-mqtt bench-http compat compat-kafka compat-failover compat-amqp compat-mqtt compat-manage compat-http compat-http-short e2e-console check-deploy oracle-amqp oracle-amqp-short crash crash-short crash-amqp crash-amqp-short crash-mqtt crash-mqtt-short crash-http crash-http-short sim sim-guards cluster cluster-short faults faults-short demo clean

help: ## list the targets
	@awk -F ':[^#]*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build bin/polylog, a static binary
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o bin/polylog ./cmd/polylog

run: build ## build and start a broker with its data in ./data (DATA=... for elsewhere)
	bin/polylog serve --data-dir '$(DATA)'

test: unit compat-kafka compat-mqtt compat-amqp compat-manage compat-http-short oracle-amqp-short crash-short crash-amqp-short crash-mqtt-short crash-http-short cluster-short ## everything that proves a change: unit tests, then real clients

unit: build ## the Go tests, under the race detector where there are goroutines
	scripts/need.sh gcc
	CGO_ENABLED=0 go test -timeout 10m $(PLAIN)
	go test -race -timeout 15m $(RACE)
	go test -race -timeout 5m -run 'Concurrent|Closed' ./index

check: ## before each commit: format, lint, and race tests of what has changed
	scripts/check.sh

fmt: ## format the Go files
	scripts/tools.sh
	.tools/golangci-lint fmt

lint: ## all linters over everything
	scripts/tools.sh
	scripts/lint.sh

docs: build ## regenerate docs/configuration.md
	bin/polylog config --reference > docs/configuration.md

fuzz: ## run each fuzz target for FUZZTIME
	scripts/fuzz.sh $(FUZZTIME)

bench-cluster: build ## compare three nodes with one; see docs/benchmarks.md
	bench/cluster.sh

bench-amqp: build ## compare with RabbitMQ, by its own load generator; see docs/benchmarks.md
	bench/amqp/run.sh

bench-mqtt: build ## compare with Mosquitto, by one client for both; see docs/benchmarks.md
	bench/mqtt/run.sh

bench-http: build ## compare with a bare echo and nsqd, by wrk, and push webhooks; see docs/benchmarks.md
	bench/http/run.sh

bench: build ## compare with Apache Kafka and with the machine's limits; see docs/benchmarks.md
	bench/run.sh

compat: compat-kafka compat-failover compat-amqp compat-mqtt compat-manage compat-http ## all suites of real clients

compat-kafka: build ## real Kafka clients against the binary
	compat-tests/kafka/run.sh
	compat-tests/kafka/run.sh -sasl

compat-failover: build ## three nodes whose leader is stopped and killed under real Kafka clients
	compat-tests/kafka/run.sh -failover

compat-mqtt: build ## real MQTT clients against the binary
	compat-tests/mqtt/run.sh

compat-manage: build ## rabbitmqadmin and others that speak RabbitMQ's management API against the binary
	compat-tests/manage/run.sh

compat-http: build ## OpenAPI checks, libraries of webhooks and CloudEvents, the documents' curls against the binary
	compat-tests/http/run.sh

compat-http-short: build # without schemathesis, for make test
	SHORT=1 compat-tests/http/run.sh

compat-amqp: build ## real AMQP clients, kombu and Celery against the binary
	compat-tests/amqp/run.sh

e2e-console: build ## the console in Chromium, with clients of all protocols at work; screenshots in .cache/console
	compat-tests/console/run.sh

check-deploy: ## ask promtool, systemd-analyze and docker compose what they think of deploy/
	scripts/check-deploy.sh

oracle-amqp: build ## 463 questions to RabbitMQ and to the binary, and every difference
	compat-tests/amqp/oracle/run.sh -live

oracle-amqp-short: build # the same with RabbitMQ's answers from the record, for make test
	compat-tests/amqp/oracle/run.sh

crash-amqp: build ## the same as crash, with AMQP queues and consumers
	compat-tests/amqp/crash/run.sh

crash-amqp-short: build # three kills, for make test
	KILLS=3 compat-tests/amqp/crash/run.sh

crash-mqtt: build ## the same as crash, with MQTT's sessions, wills and delayed messages
	compat-tests/mqtt/crash/run.sh

crash-mqtt-short: build # three kills, for make test
	KILLS=3 compat-tests/mqtt/crash/run.sh

crash-http: build ## the same as crash, with webhooks: 10,000 wait for delivery at each kill
	compat-tests/http/crash/run.sh

crash-http-short: build # three kills, for make test
	KILLS=3 BACKLOG=1000 compat-tests/http/crash/run.sh

crash: build ## kill -9 under load, again and again, and look for what was lost
	compat-tests/crash/run.sh

crash-short: build # five kills, for make test
	KILLS=5 compat-tests/crash/run.sh

sim: ## simulate SEEDS=1000 clusters of three under faults, from seed SEED=1 on
	go test -count=1 -timeout 0 -run 'TestSeeds|TestOldLeader|TestPowerCut|TestLeaderWith' ./cluster/simtest -seeds $(or $(SEEDS),1000) -seed $(or $(SEED),1)

sim-guards: ## take guards 1, 2 and 7 out of package cluster, one at a time: the simulation must fail
	go test -count=1 -timeout 30m -tags guards -run TestWithoutGuards -v ./cluster/simtest

cluster: build ## three processes: join, restart, kill, remove, replace, wipe, under load; OLD=commit: upgraded from that version
	compat-tests/cluster/run.sh

cluster-short: build # without the kills and replacements, for make test
	SHORT=1 compat-tests/cluster/run.sh

faults-short: build ## three nodes under 40 faults in 8 minutes, and what was promised; see docs/faults.md
	compat-tests/faults/run.sh

faults: build ## the same with 300 faults in 90 minutes and 20 million messages
	FAULTS=300 DURATION=90m MESSAGES=20000000 RATE=5000 compat-tests/faults/run.sh -segment-size 16MiB -volume 68719476736

demo: build ## Kafka Streams' WordCount on a real text, with a kill -9 in the middle
	compat-tests/demo/run.sh

clean: ## remove what the other targets made
	rm -rf bin .cache .tools bench-data
