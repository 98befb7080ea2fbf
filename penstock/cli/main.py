"""The commands. Each imports what it needs when it runs. Other distributions can add more (`installed`)."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.errors_shown import ending_well, show_warnings
from penstock.cli.installed import ExtensibleGroup
from penstock.cli.options import FileOption, FormatOption, LevelOption, logged, setting_options
from penstock.errors import PenstockError
from penstock.given import default_master
from penstock.observe.log import LogOptions
from penstock.settings import MOST_SITES, check_master
from penstock.version import __version__

app = typer.Typer(
    name="penstock",
    cls=ExtensibleGroup,
    help="Exact, adaptive, out-of-order stateful streaming on Spark.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

_WHAT = "A SQL script, - for one on stdin, or a stream of a Python module."
_Target = Annotated[str, typer.Argument(metavar="FILE.sql|module:stream", help=_WHAT)]
_Imports = Annotated[
    list[str] | None,
    typer.Option("--import", metavar="MODULE", help="Import a module first, which registers connectors; repeatable."),
]
_Json = Annotated[bool, typer.Option("--json", help="End with one line of JSON on stdout.")]
_Master = Annotated[
    str | None,
    typer.Option("--master", help='A Spark master, or "inline" for the engine in this process.', show_default=False),
]
_Checkpoint = Annotated[
    str,
    typer.Argument(metavar="CHECKPOINT", help="The checkpoint of a running query: its folder, .penstock, or FILE.sql."),
]
_Subquery = Annotated[
    int | None, typer.Option("--subquery", min=0, help="Only this subquery, by its number.", show_default=False)
]
_Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for the answer of the run.")]
_Seconds = Annotated[float, typer.Option("--timeout", min=0.1, metavar="SECONDS", help="Longest wait.")]
_CHECKPOINTS = Path(".penstock")
_HAS_SINK = re.compile(r"\bcreate\s+sink\b", re.IGNORECASE)
_NAMES_MASTER = re.compile(r"\bmaster\b", re.IGNORECASE)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"penstock {__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Exact, adaptive, out-of-order stateful streaming on Spark."""


@app.command()
@setting_options
def run(
    target: Annotated[
        str | None, typer.Argument(metavar="FILE.sql|module:stream", help=_WHAT, show_default=False)
    ] = None,
    command: Annotated[
        str | None, typer.Option("-c", "--command", metavar="SQL", help="SQL to run, in place of a script.")
    ] = None,
    sites: Annotated[int | None, typer.Option("--sites", help="How many sites the state is spread over.")] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option("--checkpoint", readable=False, help="Folder of the checkpoint; by default one below .penstock."),
    ] = None,
    epoch: Annotated[str | None, typer.Option("--epoch", help='Target length of an epoch, as in "2s".')] = None,
    until: Annotated[
        str | None, typer.Option("--until", help='End after "100 epochs", "30s" or "1000000 rows".')
    ] = None,
    master: _Master = None,
    rows: Annotated[int, typer.Option("--rows", min=0, help="How many rows of a SELECT to show.")] = 20,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Start over: delete the checkpoint and its results, after asking.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="With --fresh: do not ask.")] = False,
    as_json: _Json = False,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="key=value", help="Any setting, by its name; repeatable.")
    ] = None,
    imports: _Imports = None,
    log_level: LevelOption = None,
    log_file: FileOption = None,
    log_format: FormatOption = None,
    flags: Mapping[str, str] | None = None,
) -> None:
    """Run a query until its input ends, --until is reached, or Ctrl-C. Continues from its checkpoint."""
    named = f"run {target or '-c'}"
    with ending_well(as_json), logged(named, LogOptions(log_level, log_file, log_format)):
        _start_spark_early(target, master, checkpoint)
        from penstock.cli.run import RunRequest, run_options, run_target
        from penstock.cli.target import imported

        for module in imports or []:
            imported(module)

        given = {**(flags or {}), "sites": sites, "epoch": epoch, "until": until, "master": master}
        options = run_options(settings or [], given)
        code = run_target(RunRequest(target, command, checkpoint, options, rows, as_json, fresh, yes))
    raise typer.Exit(code)


def _start_spark_early(target: str | None, master: str | None, checkpoint: Path | None) -> None:
    """Start Spark's JVM before large imports if the command will probably need it: a script with sinks that has not run
    before. This is a guess: the code that uses the JVM checks that it fits, and an unused one ends with the process."""
    from penstock.spark.embedded.embedded import start_early

    master = master or default_master()
    script = Path(target or "-")
    on_this_host = master == "local" or master.startswith("local[")
    if not on_this_host or _has_run_before(script, checkpoint) or not _runs_on_spark(script):
        return
    with suppress(PenstockError, OSError):  # raised again later, where it can be shown
        check_master(master)
        start_early(master)


def _has_run_before(script: Path, checkpoint: Path | None) -> bool:
    """Return whether the checkpoint of the script exists."""
    return checkpoint.exists() if checkpoint is not None else any(_CHECKPOINTS.glob(f"{script.stem}-*"))


def _runs_on_spark(script: Path) -> bool:
    """Return whether the script has a sink and does not name a master."""
    try:
        text = script.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False
    return _HAS_SINK.search(text) is not None and _NAMES_MASTER.search(text) is None


@app.command()
def explain(target: _Target, imports: _Imports = None) -> None:
    """Show the plan of a query: its sources, its subqueries, its sink."""
    with ending_well():
        from penstock.cli.target import imported, load_target

        for module in imports or []:
            imported(module)
        loaded = load_target(target)
        show_warnings(loaded.warnings)
        options = {name: value for name, value in loaded.settings.items() if name != "until"}
        for query in loaded.queries:
            title = [f"-- {query.name}"] if len(loaded.queries) > 1 else []
            print(*title, query.ready.explain(**options), sep="\n")


@app.command()
def demo(
    seconds: Annotated[int, typer.Option("--seconds", min=1, help="How long the query runs.")] = 45,
    rate: Annotated[int, typer.Option("--rate", min=1000, help="Call records per second.")] = 100_000,
    sites: Annotated[
        int, typer.Option("--sites", min=1, max=MOST_SITES, help="How many sites the state is spread over.")
    ] = 2,
    master: _Master = None,
    log_level: LevelOption = None,
    log_file: FileOption = None,
    log_format: FormatOption = None,
) -> None:
    """Watch a live query on embedded Spark: callers with suspiciously many calls, among generated call records."""
    with ending_well(), logged("demo", LogOptions(log_level, log_file, log_format)):
        from penstock.cli.demo import run_demo

        code = run_demo(seconds, rate, sites, master or default_master())
    raise typer.Exit(code)


@app.command()
def scale(
    checkpoint: _Checkpoint,
    sites: Annotated[int, typer.Option("--sites", min=1, max=MOST_SITES, help="The new number of sites.")],
    subquery: _Subquery = None,
    wait: _Wait = True,
    seconds: _Seconds = 30.0,
) -> None:
    """Change the number of sites of a running query."""
    with ending_well():
        from penstock.cli.control import request_change
        from penstock.control.requests import ScaleRequest

        request_change(checkpoint, ScaleRequest(sites, subquery), seconds if wait else None)


@app.command()
def move(
    checkpoint: _Checkpoint,
    group: Annotated[str, typer.Argument(metavar="GROUP", help="The group, by its bits, as in 0110.")],
    site: Annotated[int, typer.Argument(metavar="SITE", min=0, help="The number of its new site.")],
    subquery: _Subquery = None,
    wait: _Wait = True,
    seconds: _Seconds = 30.0,
) -> None:
    """Move a partition group of a running query to another site."""
    with ending_well():
        from penstock.cli.control import request_move

        request_move(checkpoint, group, site, subquery, seconds if wait else None)


@app.command()
def split(
    checkpoint: _Checkpoint,
    group: Annotated[str, typer.Argument(metavar="GROUP", help="The group, by its bits, as in 0110.")],
    subquery: _Subquery = None,
    wait: _Wait = True,
    seconds: _Seconds = 30.0,
) -> None:
    """Split a partition group of a running query into two, at the same site."""
    with ending_well():
        from penstock.cli.control import request_split

        request_split(checkpoint, group, subquery, seconds if wait else None)


@app.command()
def rebalance(
    checkpoint: _Checkpoint, subquery: _Subquery = None, wait: _Wait = True, seconds: _Seconds = 30.0
) -> None:
    """Balance the load of the sites of a running query now."""
    with ending_well():
        from penstock.cli.control import request_change
        from penstock.control.requests import RebalanceRequest

        request_change(checkpoint, RebalanceRequest(subquery), seconds if wait else None)


@app.command()
def top(
    checkpoint: _Checkpoint,
    once: Annotated[bool, typer.Option("--once", help="Print the status once and exit.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the status as one line of JSON and exit.")] = False,
) -> None:
    """Watch the sites, groups and decisions of a running query; q quits."""
    with ending_well(as_json):
        from penstock.cli.top import watch

        watch(checkpoint, once, as_json)


if __name__ == "__main__":
    sys.exit(app())
