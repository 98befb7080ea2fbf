"""The settings of a run, as the reference shows them.

Their names, types and defaults are read from the package; one that has no meaning here stops the tool.
"""

from __future__ import annotations

from dataclasses import fields

from reference_tables import cell, table

from penstock.settings import Settings

_MEANING = {
    "sites": "how many tasks the state of a subquery is spread over; may change at a restart, and while it runs",
    "master": "a Spark master such as `local[*]` or `spark://host:7077`, or `inline`: in this process, without Spark",
    "epoch_seconds": "the length an epoch aims at with a backlog, and the time from one to the next without; "
    "None: 0.5 with a backlog, and without one short pauses after short epochs",
    "rows_per_epoch": "what an epoch takes in; None: as much as fits its length",
    "item_rows": "a work item of a site has about so many rows",
    "items": "a site does at most so many items in an epoch; None: no bound",
    "deadline_seconds": "a site begins no further item after this; None: no bound",
    "groups_per_site": "partition groups for each site of a new checkpoint",
    "buffer_rows": "no more rows than these are left to wait at a site, whatever its deadline; sources are slowed from "
    "half of that on; None: no bound",
    "max_lead": "how far a source, or a file that is a substream, may run ahead of the others in event time, as a span "
    "or in the unit of an integer time, between their marks, so slack and allowed lateness count; the one that "
    "lags is never held back; None: no bound",
    "flush": "when windows that are complete are closed: `eager`: at once; `slow`: spread over the next `max_delay` "
    "windows; `lazy`: in idle time, and at the latest after `max_delay` windows",
    "max_delay": "by how many windows closings may be put off; more only where `items` or `deadline_seconds` leave no "
    "time for them",
    "policy": "what decides which group lives where: `static`, `even`, `flux`, `diffusion`, `elastic`, `memory`, "
    "`hybrid`",
    "round_seconds": "how long a policy watches before it decides",
    "state_bytes": "a policy gives no site more state of a subquery than so much, and `hybrid` evens out state while a "
    "site holds more; None: no bound",
    "least_sites": "a policy goes down to so many sites",
    "most_sites": "a policy goes up to so many sites; None: to `sites`",
    "on_full": "`stop` ends the run with an error when a disk is full, `wait` makes it wait and try again",
    "on_bad_row": "`stop` ends the run at a malformed row, `divert` sends it to the bad output",
    "on_missing_results": "`stop` refuses to start where published rows are gone with their folder, `accept` goes on "
    "without them",
    "lateness": "`window`: a row below the punctuation is late for windows that are closed, and counts in open ones; "
    "`row`: it counts for none; fixed for the life of a checkpoint",
    "late": "folder of the late rows; empty: `late` in the checkpoint",
    "bad": "folder of the bad rows; empty: `bad` in the checkpoint",
    "order": "`in`: rows reach operators, Python functions and the sink in order of time; fixed for a checkpoint",
    "grid": "the cells of a theta join: `auto`: about one for each site; or rows x columns; fixed for a checkpoint",
    "exchange": "`direct`: workers stay between epochs and hand rows over in memory, where all are on this host; "
    "`spark`: every epoch is a job of Spark, with its shuffle",
    "hash_bits": "below 64 provokes hash collisions, for tests; fixed for a checkpoint",
    "attempts_per_epoch": "how often an epoch is run, if workers are lost or its tasks disagree, before the run fails",
    "cache": "on a cluster: a local folder (an absolute path) in which each host keeps copies of what it needs of the "
    "state, or `executor`: one for each executor, in the folder that Spark gives it; empty: state is read where the "
    "checkpoint is",
    "cache_bytes": "what such a cache takes, about; more where the sites of its host need more in one epoch",
}
_START_OPTIONS = (
    ("epoch", "span", '`epoch_seconds`, as a span: `"2s"`'),
    ("deadline", "span", "`deadline_seconds`, as a span"),
    ("round", "span", "`round_seconds`, as a span"),
    ("until", "str", '`"100 epochs"`, `"1_000_000 rows"` or a span: ends the run there; the checkpoint can go on'),
    ("on_event", "callable", "Python only: called with every event of the run, from its thread"),
)
_ENVIRONMENT = (
    ("PENSTOCK_MASTER", "the master of runs that are not given one; `inline` needs no Spark"),
    ("SPARK_LOCAL_IP", "set to 127.0.0.1 for a local master unless it is set already"),
    ("PYSPARK_PYTHON", "set to the running Python unless it is set already"),
    ("JAVA_HOME", "the Java that Spark runs on"),
)


def settings_section() -> str:
    rows = [(f"`{f.name}`", cell(f.type), f"`{f.default!r}`", _MEANING[f.name]) for f in fields(Settings)]
    options = [(f"`{name}`", cell(kind), meaning) for name, kind, meaning in _START_OPTIONS]
    return "\n\n".join(
        [
            "## Settings\n\nOptions of `start(...)`, `SET name = value` in a script, or `--set name=value` of the "
            "command line. What a query computes does not depend on them.",
            table(("setting", "type", "default", ""), rows),
            "Ways to write some of them, and what else a run takes:",
            table(("option", "type", ""), options),
            "Environment:",
            table(("variable", ""), [(f"`{name}`", meaning) for name, meaning in _ENVIRONMENT]),
        ]
    )
