#!/usr/bin/env bash
# check.sh is what stands between a change and its commit: formatters, linters (with vet
# and staticcheck among them), and the race tests of the packages that the change touches,
# against the merge base with BASE (main, or the commit before where main is checked out).
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/tools.sh
scripts/need.sh gcc
head=$(git rev-parse HEAD)
base=$(git merge-base HEAD "${BASE:-main}" 2>/dev/null || echo "$head")
[ "$base" != "$head" ] || base=$(git rev-parse --quiet --verify HEAD~1 || echo "$head")

if ! diff=$(.tools/golangci-lint fmt --diff) || [ -n "$diff" ]; then
  echo "$diff"
  echo "make fmt would format this"
  exit 1
fi
scripts/lint.sh

packages=()
while read -r dir; do
  # A folder can be gone, or belong to a module of its own.
  if go list "./$dir" >/dev/null 2>&1; then packages+=("./$dir"); fi
done < <({ git diff --name-only "$base" -- '*.go'; git ls-files --others --exclude-standard -- '*.go'; } |
  xargs -r -n 1 dirname | sort -u)
# The tests that look over the whole tree come with every change.
go test -race . ./cmd/polylog/config "${packages[@]}"
