"""The Flink side of the benchmark: a script of its own, run by the Python of Flink's environment, where Penstock is
not installed. It starts one Flink in its JVM, which stays warm, and then answers requests: a line of JSON each, and a
line of JSON back.

A request has `tables` (statements that create them), `query` (a SELECT), `out` (the folder of the result) and
`settings` (of Flink); with `told`, a file, how many rows have been read is written there from time to time. The answer
has `seconds`, `net_seconds` (without planning and submission), `rows_read` and `columns`, or `error`.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from pyflink.common import Configuration  # type: ignore[import-not-found]
from pyflink.java_gateway import get_gateway  # type: ignore[import-not-found]
from pyflink.table import EnvironmentSettings, TableEnvironment  # type: ignore[import-not-found]

SINK = "answer"
PERIOD = 0.1  # seconds between two looks at how many rows have been read


class Flink:
    """One Flink with `slots` task slots for all queries; `options` are settings of the cluster, as KEY=VALUE."""

    def __init__(self, slots: int, options: list[str]) -> None:
        self._jvm = get_gateway().jvm
        runtime = self._jvm.org.apache.flink.runtime.minicluster
        settings = Configuration()
        settings.set_string("rest.bind-port", "0")
        for option in options:
            settings.set_string(*option.split("=", 1))
        builder = runtime.MiniClusterConfiguration.Builder().setConfiguration(settings._j_configuration)
        self._cluster = runtime.MiniCluster(builder.setNumSlotsPerTaskManager(slots).withRandomPorts().build())
        self._cluster.start()

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        tables = self._tables(request["settings"])
        for statement in request["tables"]:
            tables.execute_sql(statement)
        columns = _columns(tables.sql_query(request["query"]))
        tables.execute_sql(_sink(columns, request["out"]))
        read = self._rows_read()
        began = time.perf_counter()
        net_seconds = self._run(tables, f"INSERT INTO {SINK} {request['query']}", request.get("told"))
        seconds = time.perf_counter() - began
        rows_read = self._rows_read() - read
        return {"seconds": seconds, "net_seconds": net_seconds, "rows_read": rows_read, "columns": columns}

    def _tables(self, settings: dict[str, str]) -> TableEnvironment:
        address = self._cluster.getRestAddress().get()
        where = {"execution.target": "remote", "rest.address": address.getHost(), "rest.port": str(address.getPort())}
        configuration = Configuration()
        for key, value in (settings | where).items():
            configuration.set_string(key, value)
        return TableEnvironment.create(
            EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(configuration).build()
        )

    def _run(self, tables: TableEnvironment, statement: str, told: str | None) -> float:
        """Waits for the end inside the JVM: a client of Flink would ask for it only every two seconds."""
        job = tables.execute_sql(statement)._j_table_result.getJobClient().get().getJobID()
        ended = self._cluster.requestJobResult(job)
        if told is not None:
            self._tell(Path(told), ended)
        result = ended.get()
        # Raises what went wrong, if something did.
        result.toJobExecutionResult(self._jvm.Thread.currentThread().getContextClassLoader())
        return float(result.getNetRuntime()) / 1000

    def _tell(self, file: Path, ended: Any) -> None:
        """Write how many rows have been read, until the job has ended. Not in a thread: then the calls that plan the
        next query could come to different threads of the JVM, and its planner keeps things by thread."""
        before, draft = self._rows_read(), file.with_suffix(".draft")
        while not ended.isDone():
            draft.write_text(str(self._rows_read() - before))
            os.replace(draft, file)
            time.sleep(PERIOD)

    def _rows_read(self) -> int:
        return int(self._jvm.penstock.flink.ColumnTables.rowsRead())

    def stop(self) -> None:
        self._cluster.closeAsync().get()


def _columns(table: Any) -> list[tuple[str, str]]:
    schema = table._j_table.getResolvedSchema()
    types = [kind.getLogicalType().copy(True).asSerializableString() for kind in schema.getColumnDataTypes()]
    return list(zip(schema.getColumnNames(), types, strict=True))


def _sink(columns: list[tuple[str, str]], folder: str) -> str:
    listed = ", ".join(f"`{name}` {kind}" for name, kind in columns)
    return f"CREATE TABLE {SINK} ({listed}) WITH ('connector' = 'columns', 'path' = '{folder}')"


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the JVM prints does not belong among the answers
    flink = Flink(int(sys.argv[1]), sys.argv[2:])
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for line in sys.stdin:
        try:
            answer = flink.answer(json.loads(line))
        except Exception:
            answer = {"error": traceback.format_exc()}
        print(json.dumps(answer), file=answers, flush=True)
    flink.stop()


if __name__ == "__main__":
    main()
