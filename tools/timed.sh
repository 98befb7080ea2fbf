#!/usr/bin/env bash
# Runs a command and says how long it took: timed.sh LABEL COMMAND...
set -euo pipefail
label=$1
shift
echo "== $label"
start=$SECONDS
status=0
"$@" || status=$?
echo "== $label: $((SECONDS - start)) s, exit code $status"
exit "$status"
