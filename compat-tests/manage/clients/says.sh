# What the scripts that run rabbitmqadmin have in common; they are called with SCRIPT HOST:PORT. login is how
# it is to log in: nothing is guest.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
login=()
admin() { python3 "$script" --host "$host" --port "$port" "${login[@]}" "$@"; }
script=$1 host=${2%:*} port=${2##*:}

# says TEXT COMMAND…: the command succeeds, and TEXT is in what it prints.
says() {
  local want=$1 out
  shift
  out=$(admin "$@" 2>&1) || { echo "rabbitmqadmin $*: fails: $out" >&2; exit 1; }
  [[ $out == *"$want"* ]] || { echo "rabbitmqadmin $*: want $want in: $out" >&2; exit 1; }
}
# fails TEXT COMMAND…: the command fails, and says TEXT.
fails() {
  local want=$1 out
  shift
  if out=$(admin "$@" 2>&1); then echo "rabbitmqadmin $*: succeeds: $out" >&2; exit 1; fi
  [[ $out == *"$want"* ]] || { echo "rabbitmqadmin $*: want $want in: $out" >&2; exit 1; }
}
