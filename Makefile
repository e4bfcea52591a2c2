# Errand. `make help` lists what there is; README commands work without make too.
GO ?= go
PACKAGES = ./cli/... ./examples/... ./functions/... ./localstack/... ./mutants/... ./shared/... .

.DEFAULT_GOAL := help
.PHONY: help run demo test lint build simulate crash bench check-protocols mutants mutants-all infra-test localstack-test localstack-up localstack-down

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-18s %s\n", $$1, $$2}'

run: ## run the whole stack in one process, with the lab agents
	$(GO) run . serve --lab

demo: ## import a real CSV file in the background while a conversation goes on
	$(GO) run . demo

test: ## all tests but those of the AWS stack, with the race detector
	$(GO) test -race $(PACKAGES)

lint: ## gofmt, go vet, tidy go.mod
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); exit 1; }
	$(GO) vet $(PACKAGES)
	$(GO) mod tidy -diff

build: ## the errand command and the three Lambda bootstraps, into dist/
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags "-s -w" -o dist/errand .
	@for f in ingress executor reconcile; do \
	  CGO_ENABLED=0 GOOS=linux GOARCH=arm64 $(GO) build -tags lambda.norpc -trimpath -ldflags "-s -w" -buildvcs=false -o dist/$$f/bootstrap ./functions/$$f || exit 1; done
	@ls -l dist/errand dist/*/bootstrap

simulate: ## 10,000 seeded conversations with faults
	$(GO) test ./shared/simulation -run 'TestSimulation$$' -seeds 10000 -timeout 60m -v

check-protocols: ## the model checkers at full size
	ERRAND_PROTOCOLS=full $(GO) test ./shared/protocol -timeout 60m -v

mutants: ## break each rule of the protocols once; a test must fail
	$(GO) run ./mutants -quick

mutants-all: ## all mutants, also those that only the simulation kills
	$(GO) run ./mutants

crash: ## kill the real server 120 times under load
	$(GO) test ./shared/crash -count=1 -timeout 30m -v -kills 120

bench: ## the numbers of docs/benchmarks.md
	$(GO) test ./shared/serve -run '^$$' -bench 'Dispatch|EndTo|Detached' -benchtime 2000x
	$(GO) test ./shared/serve -run '^$$' -bench 'Claim|Tick' -benchtime 200x
	$(GO) test ./shared/serve -run '^$$' -bench 'Idle|Recovery' -benchtime 1x
	$(GO) test ./shared/crash -run '^$$' -bench Restart -benchtime 20x
	$(GO) test -v -count=1 -run TestBilled ./localstack/bill

infra-test: ## the template of the AWS stack; needs Node
	$(GO) test ./infra

localstack-test: ## deploy the stack to an AWS-compatible endpoint and drive it; needs Node and Python 3
	ERRAND_DEPLOY=1 $(GO) test ./localstack/deploy -count=1 -timeout 30m -parallel 16 -v
	ERRAND_RACE_ROUNDS=1000 $(GO) test ./localstack/adapters -run SixtyFour -count=1 -v

localstack-up: ## leave such a stack running on port 4566
	localstack/deploy.sh up

localstack-down: ## end it
	localstack/deploy.sh down
