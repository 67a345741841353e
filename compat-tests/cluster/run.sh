#!/usr/bin/env bash
# The life of a cluster of three processes of bin/polylog under load: see main.go. With OLD, a commit,
# it begins with that version's binary, and is upgraded to this one.
set -euo pipefail
cd "$(dirname "$0")"
old=
if [ -n "${OLD:-}" ]; then
	tree=$(mktemp -d)
	trap 'rm -rf "$tree"' EXIT
	git -C ../.. archive "$OLD" | tar -x -C "$tree"
	old=$tree/polylog-$OLD
	(cd "$tree" && CGO_ENABLED=0 go build -trimpath -o "$old" ./cmd/polylog)
	for listener in kafka-rest-listen nsq-listen; do
		if ! "$old" serve --help 2>&1 | grep -q -- "--$listener"; then # from before that listener
			mv "$old" "$old.before-$listener"
			printf '%s\n' '#!/usr/bin/env bash' 'args=()' \
				"while ((\$#)); do if [ \"\$1\" = --$listener ]; then shift 2; else args+=(\"\$1\"); shift; fi; done" \
				"exec '$old.before-$listener' \"\${args[@]}\"" >"$old"
			chmod +x "$old"
		fi
	done
fi
go run . ${SHORT:+-short} ${SEED:+-seed "$SEED"} ${old:+-old "$old"}
