#!/usr/bin/env bash
# Apache Flink in .flink-env, an environment of its own, and the connector of the benchmark compiled against it.
# Does nothing when that is there and neither this file nor the connector has changed since.
set -euo pipefail
cd "$(dirname "$0")/.."

VERSION=2.3.0
PYTHON=${PYTHON:-python3}
HOME_FOLDER=.flink-env
SOURCES=bench/penstock_bench/flink/connector
CLASSES=$HOME_FOLDER/penstock-classes
STAMP=$HOME_FOLDER/.penstock-setup
LEAST_JAVA=17

stop() {
  echo "error: $1" >&2
  echo "  hint: $2" >&2
  exit 1
}

up_to_date() {
  [[ -e $STAMP ]] || return 1
  [[ -z $(find tools/flink.sh "$SOURCES" -name '*.java' -newer "$STAMP" -o -name flink.sh -newer "$STAMP") ]]
}

ensure_compiler() {
  JAVAC=${JAVA_HOME:+$JAVA_HOME/bin/}javac
  local how="install a JDK, for example: sudo apt-get install openjdk-17-jdk-headless"
  command -v "$JAVAC" >/dev/null || stop "there is no $JAVAC, which compiles the connector" "$how"
  local version
  version=$("$JAVAC" -version 2>&1 | sed -nE 's/^javac (1\.)?([0-9]+).*/\2/p')
  ((${version:-0} >= LEAST_JAVA)) || stop "$JAVAC is older than Java $LEAST_JAVA" "$how"
}

installed() {
  [[ -x $HOME_FOLDER/bin/python ]] && "$HOME_FOLDER/bin/python" -m pip show apache-flink 2>/dev/null | grep -qx "Version: $VERSION"
}

install_flink() {
  installed && return
  "$PYTHON" -c 'import sys; sys.exit(not (3, 9) <= sys.version_info < (3, 13))' ||
    stop "apache-flink $VERSION has no package for $("$PYTHON" --version)" "make flink PYTHON=/path/to/python3.11"
  echo "installing apache-flink $VERSION into $HOME_FOLDER"
  rm -rf "$HOME_FOLDER"
  "$PYTHON" -m venv "$HOME_FOLDER" || stop "$PYTHON cannot create virtual environments" "on Debian: sudo apt-get install python3-venv"
  "$HOME_FOLDER/bin/python" -m pip install --disable-pip-version-check "apache-flink==$VERSION" ||
    stop "pip could not install apache-flink $VERSION" "see its message above; make flink can be repeated"
}

compile_connector() {
  echo "compiling the connector"
  rm -rf "$CLASSES"
  mkdir -p "$CLASSES/META-INF/services"
  echo penstock.flink.ColumnTables >"$CLASSES/META-INF/services/org.apache.flink.table.factories.Factory"
  # -proc:none: among Flink's libraries are annotation processors, which are not meant for us.
  "$JAVAC" -nowarn -proc:none -d "$CLASSES" -cp "$(echo "$PWD/$HOME_FOLDER"/lib/python3*/site-packages/pyflink/lib)/*" "$SOURCES"/*.java 2>&1 |
    { grep -v 'Cannot find annotation method' || true; }
  [[ -e $CLASSES/penstock/flink/ColumnTables.class ]] || stop "the connector could not be compiled" "see the message above"
}

if up_to_date; then
  echo "Flink is ready"
  exit 0
fi
ensure_compiler
rm -f "$STAMP"
install_flink
compile_connector
touch "$STAMP"
echo "Flink is ready: penstock bench tumble --systems flink"
