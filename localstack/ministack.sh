#!/bin/sh
# Starts MiniStack, an AWS-compatible server in Python, from a virtual environment
# inside this project. No Docker, no account.
#
#   localstack/ministack.sh install      create .venv/ministack-VERSION if it is missing
#   localstack/ministack.sh run [PORT]   serve on 127.0.0.1:PORT (default 4566) in the foreground
#
# With ERRAND_STDIN_GUARD=1, run ends when its standard input closes: so it
# cannot outlive the test that started it.
set -eu

version=1.5.33
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
venv=$root/.venv/ministack-$version

install() {
	[ -e "$venv/ready" ] && return
	echo "installing ministack $version into $venv" >&2
	python3 -m venv --clear "$venv"
	# cryptography is what its JWT authorizers need.
	"$venv/bin/python" -m pip install --quiet --disable-pip-version-check "ministack==$version" cryptography >&2
	touch "$venv/ready"
}

run() {
	port=${1:-4566}
	# Its default is every interface. AWS_ENDPOINT_URL is what its Lambdas inherit:
	# without it they would call the real AWS.
	export GATEWAY_PORT="$port" BIND_HOST=127.0.0.1 AWS_ENDPOINT_URL="http://127.0.0.1:$port"
	export IOT_MTLS_ENABLED=0 LAMBDA_EXECUTOR=local LOG_LEVEL="${LOG_LEVEL:-WARNING}"
	export AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test AWS_REGION=us-east-1
	exec "$venv/bin/python" "$root/localstack/serve.py"
}

case ${1:-} in
install) install ;;
run) install; run "${2:-}" ;;
*) sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
