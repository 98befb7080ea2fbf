#!/usr/bin/env bash
# A virtual environment in .venv with the package, its benchmark and its development tools, and a Java that Spark can run on.
# Does nothing when that is there and neither pyproject.toml has changed since.
set -euo pipefail
cd "$(dirname "$0")/.."

PYTHON=${PYTHON:-python3}
STAMP=.venv/.penstock-setup
LEAST_JAVA=17

stop() {
  echo "error: $1" >&2
  echo "  hint: $2" >&2
  exit 1
}

java_version() {
  local java=${JAVA_HOME:+$JAVA_HOME/bin/}java
  command -v "$java" >/dev/null || { echo 0; return; }
  # 'openjdk version "17.0.15"', and of old '"1.8.0_400"'
  "$java" -version 2>&1 | sed -nE '1,/version/ s/.*version "(1\.)?([0-9]+).*/\2/p' | head -n 1 | grep . || echo 0
}

ensure_java() {
  (($(java_version) >= LEAST_JAVA)) && return
  [[ -z ${JAVA_HOME:-} ]] || stop "JAVA_HOME is $JAVA_HOME, which has no Java $LEAST_JAVA or newer" "unset it, or set it to one"
  local how="install Java $LEAST_JAVA or newer, for example: sudo apt-get install openjdk-17-jre-headless"
  { [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null; } || stop "Spark needs Java $LEAST_JAVA or newer" "$how"
  echo "installing Java for Spark"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq || true
  apt-get install -y -qq --no-install-recommends openjdk-17-jre-headless >/dev/null ||
    apt-get install -y -qq --no-install-recommends default-jre-headless >/dev/null ||
    stop "Java could not be installed" "$how"
  (($(java_version) >= LEAST_JAVA)) || stop "the Java that was installed is older than $LEAST_JAVA" "$how"
}

ensure_python() {
  command -v "$PYTHON" >/dev/null || stop "there is no $PYTHON" "install Python 3.11 or newer, or: make setup PYTHON=/path/to/python"
  "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    stop "$("$PYTHON" --version) is too old" "install Python 3.11 or newer, or: make setup PYTHON=/path/to/python"
}

ensure_venv() {
  [[ -x .venv/bin/python ]] && return
  echo "creating .venv"
  "$PYTHON" -c 'import venv, ensurepip' 2>/dev/null || venv_missing
  "$PYTHON" -m venv .venv || { rm -rf .venv; venv_missing; }
}

venv_missing() {
  stop "$PYTHON cannot create virtual environments" "on Debian: sudo apt-get install python3-venv"
}

install_package() {
  [[ $STAMP -nt pyproject.toml && $STAMP -nt bench/pyproject.toml ]] && return
  echo "installing the package, its benchmark and its development tools"
  .venv/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]' --editable bench ||
    stop "pip could not install the package" "see its message above; setup can be repeated"
  .venv/bin/python -m compileall -q penstock bench/penstock_bench || true # so that the first command starts as fast as any other
  touch "$STAMP"
  prepare_spark
}

# Spark's classes as the JVM has them in memory: Spark starts without them, too.
prepare_spark() {
  echo "preparing Spark for fast starts"
  SPARK_LOCAL_IP=127.0.0.1 .venv/bin/python -m penstock.spark.prepare >/dev/null 2>&1 || true
}

ensure_java
ensure_python
ensure_venv
install_package
