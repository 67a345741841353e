#!/usr/bin/env bash
# console-vendor.sh puts what others have written into the console's files, from npm, with the
# licences: run it after a change of the versions here, and commit what it writes.
set -euo pipefail
cd "$(dirname "$0")/.."
htm=3.1.1 preact=10.28.0 uplot=1.6.32 # preact: for its licence alone, htm has its code

to=$PWD/protocols/http/console/assets/vendor
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
scripts/need.sh npm
cd "$work"
npm pack --silent "htm@$htm" "preact@$preact" "uplot@$uplot" >/dev/null
for p in htm preact uplot; do
  mkdir $p
  tar xzf $p-*.tgz -C $p --strip-components 1
  cp $p/LICENSE "$to/LICENSE-$p.txt"
done
cp htm/preact/standalone.module.js "$to/htm-preact.js"
cp uplot/dist/uPlot.esm.js "$to/uplot.js"
cp uplot/dist/uPlot.min.css "$to/uplot.css"
