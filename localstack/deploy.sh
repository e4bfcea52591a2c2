#!/bin/sh
# Brings Errand's stack up in the background, and down again.
#
#   localstack/deploy.sh up [PORT]   print how to reach the API when it is there, for eval
#   localstack/deploy.sh down        end it, with all it holds
#
# ENDPOINT says where: ministack (the default; PORT is its port, 4566), localstack (in Docker, see
# compose.yaml; it wants LOCALSTACK_AUTH_TOKEN) or aws (with the credentials at hand; it costs money).
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
mkdir -p "$root/.venv"
program=$root/.venv/errand-deploy log=$root/.venv/errand-deploy.log pid=$root/.venv/errand-deploy.pid
endpoint=${ENDPOINT:-ministack}

running() { [ -s "$pid" ] && kill -0 "$(cat "$pid")" 2>/dev/null; }

compose() { docker compose --file "$root/localstack/compose.yaml" "$@"; }

up() {
	running && { echo "it is up; localstack/deploy.sh down ends it" >&2; exit 1; }
	[ "$endpoint" = localstack ] && compose up --detach --wait
	cd "$root"
	go build -o "$program" ./localstack/deploy
	nohup "$program" "${1:-4566}" >"$log" 2>&1 &
	echo $! >"$pid"
	while running; do
		grep -q '^ready$' "$log" && { grep '^export ' "$log"; return; }
		sleep 1
	done
	cat "$log" >&2
	exit 1
}

down() {
	running && kill "$(cat "$pid")"
	rm -f "$pid"
	case $endpoint in
	localstack) LOCALSTACK_AUTH_TOKEN=${LOCALSTACK_AUTH_TOKEN:-none} compose down --volumes ;;
	aws) cd "$root" && go run ./localstack/deploy destroy ;;
	esac
}

case ${1:-} in
up) up "${2:-}" ;;
down) down ;;
*) sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
