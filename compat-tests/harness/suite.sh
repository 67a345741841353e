# What suites of real clients have in common; a suite's run.sh sources it, in its own folder.
# It sets root, cache (where what is installed stays), work (removed at the end) and failed.
set -euo pipefail
root=$(realpath ../..)
cache=$root/.cache/$(basename "$PWD")
mkdir -p "$cache"
work=$(mktemp -d)
broker=
failed=0

# stop ends the broker.
stop() {
  [ -n "$broker" ] || return 0
  kill "$broker" 2>/dev/null || true
  wait "$broker" 2>/dev/null || true
  broker=
}
trap 'stop; rm -rf "$work"' EXIT

# python_packages has those of requirements.txt in $cache/venv.
python_packages() {
  cmp -s requirements.txt "$cache/requirements.txt" && return
  "$root/scripts/need.sh" python3
  python3 -c 'import ensurepip' 2>/dev/null || "$root/scripts/need.sh" python3-venv
  python3 -m venv "$cache/venv"
  "$cache/venv/bin/pip" install -q --disable-pip-version-check -r requirements.txt
  cp requirements.txt "$cache/"
}

# node_packages has those of package-lock.json in $cache/node_modules.
node_packages() {
  cmp -s package-lock.json "$cache/package-lock.json" && return
  "$root/scripts/need.sh" node npm
  (cp package.json package-lock.json "$cache/" && cd "$cache" && npm ci --silent --no-audit --no-fund --ignore-scripts) || {
    rm -f "$cache/package-lock.json"
    return 1
  }
}

# broker LISTENERS [FLAG...] starts bin/polylog on an empty data directory, with these listeners, on ports
# that the system chooses, and no others: broker "http mqtt-ws" --flush os.
broker() {
  local listeners=" $1 " name flags=()
  shift
  stop
  rm -rf "$work/data" "$work/addresses"
  for name in kafka kafka-rest nsq amqp management mqtt mqtt-ws http; do
    case $listeners in
      *" $name "*) flags+=("--$name-listen" 127.0.0.1:0) ;;
      *) flags+=("--$name-listen" off) ;;
    esac
  done
  "$root/bin/polylog" serve --data-dir "$work/data" --addr-file "$work/addresses" --log-level error "${flags[@]}" "$@" >/dev/null &
  broker=$!
  until [ -s "$work/addresses" ]; do
    kill -0 "$broker" 2>/dev/null || { echo "the broker ended" >&2; exit 1; }
    sleep 0.05
  done
}

# address NAME is host:port of the broker's listener.
address() { sed -n "s/^$1=//p" "$work/addresses"; }

# check NAME COMMAND... says whether the command went well, and else the end of what it said.
check() {
  local name=$1
  shift
  if timeout 300 "$@" >"$work/output" 2>&1; then
    echo "ok   $name"
  else
    echo "FAIL $name"
    tail -n 30 "$work/output"
    failed=1
  fi
}
