#!/usr/bin/env bash
# lint.sh runs all linters over every module of the repository.
set -euo pipefail
cd "$(dirname "$0")/.."
linter=$PWD/.tools/golangci-lint
find . -name go.mod -not -path './.*' -printf '%h\n' | while read -r module; do
  [ -z "$(find "$module" -name '*.go' -print -quit)" ] || (cd "$module" && "$linter" run) # one only names a program that is built
done
