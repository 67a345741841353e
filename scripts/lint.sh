#!/usr/bin/env bash
# lint.sh runs all linters over every module of the repository.
set -euo pipefail
cd "$(dirname "$0")/.."
linter=$PWD/.tools/golangci-lint
find . -name go.mod -not -path './.*' -printf '%h\n' | while read -r module; do
  (cd "$module" && "$linter" run)
done
