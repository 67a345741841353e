#!/usr/bin/env bash
# tools.sh puts the linter into .tools/, at the one version whose settings we keep.
set -euo pipefail
cd "$(dirname "$0")/.."

version=2.15.0
if [ -x .tools/golangci-lint ] && .tools/golangci-lint version 2>/dev/null | grep -q "version v\?$version "; then
  exit 0
fi
echo "building golangci-lint $version, once; this takes some minutes"
GOBIN="$PWD/.tools" GOFLAGS=-mod=mod go install "github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v$version"
