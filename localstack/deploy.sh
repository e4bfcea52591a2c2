#!/bin/sh
# Brings Errand's stack up on MiniStack in the background, and down again.
#
#   localstack/deploy.sh up [PORT]   (default 4566) print how to reach the API when it is there
#   localstack/deploy.sh down        end it, with all it holds
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
mkdir -p "$root/.venv"
program=$root/.venv/errand-deploy log=$root/.venv/errand-deploy.log pid=$root/.venv/errand-deploy.pid

running() { [ -s "$pid" ] && kill -0 "$(cat "$pid")" 2>/dev/null; }

up() {
	running && { echo "it is up; localstack/deploy.sh down ends it" >&2; exit 1; }
	cd "$root"
	go build -o "$program" ./localstack/deploy
	nohup "$program" "${1:-4566}" >"$log" 2>&1 &
	echo $! >"$pid"
	while running; do
		grep -q '^ready$' "$log" && { grep -v '^ready$' "$log"; return; }
		sleep 1
	done
	cat "$log" >&2
	exit 1
}

down() {
	running && kill "$(cat "$pid")"
	rm -f "$pid"
}

case ${1:-} in
up) up "${2:-}" ;;
down) down ;;
*) sed -n '2,5s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
