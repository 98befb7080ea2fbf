"""The command `penstock bench`. Like the commands of Penstock itself, it imports what it needs when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.errors_shown import ending_well

ORDER = "order"  # a benchmark of its own

app = typer.Typer(name="bench", pretty_exceptions_enable=False, add_completion=False)


def _complete_benchmark(incomplete: str) -> list[str]:
    from penstock_bench.cli.kinds import benchmark_names

    return [name for name in benchmark_names() if name.startswith(incomplete)]


@app.command()
def bench(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...",
            help=f'Workloads, all if none is named; or "{ORDER}", in order beside out of order; or experiments.',
            autocompletion=_complete_benchmark,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print measurements as lines of JSON, as they come.")] = False,
    report: Annotated[
        Path | None, typer.Option("--report", metavar="DIR", help="Also write an HTML page with plots.")
    ] = None,
    rows: Annotated[
        int | None, typer.Option("--rows", min=1, help="Rows of each stream: 4000000.", show_default=False)
    ] = None,
    repeat: Annotated[
        int | None,
        typer.Option("--repeat", min=1, help=f"Trials of each system: 3, for {ORDER} 1.", show_default=False),
    ] = None,
    systems: Annotated[
        list[str] | None,
        typer.Option("--systems", "--system", help="Which systems take part, between commas; otherwise all."),
    ] = None,
    work: Annotated[Path, typer.Option("--work", help="Folder for input and scratch files.")] = Path("bench-work"),
    memory: Annotated[
        int | None,
        typer.Option("--memory", min=1, metavar="GIB", help="Heap of each peer's JVM: 12.", show_default=False),
    ] = None,
    files_per_trigger: Annotated[
        str | None,
        typer.Option("--files-per-trigger", metavar="1,2,5,10", help="Batch sizes of Spark; its best one is measured."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help=f"{ORDER} and experiments: little data; only the method is tried.")
    ] = False,
    profile: Annotated[
        bool, typer.Option("--profile", help="Also show where the time of Penstock's epochs goes.")
    ] = False,
) -> None:
    """Measure Penstock and its peers on the same questions, with every result checked."""
    with ending_well():
        from penstock_bench.cli.kinds import run_benchmark
        from penstock_bench.cli.workloads import BenchOptions

        options = BenchOptions(
            names or [], systems or [], rows, repeat, work, memory, files_per_trigger, report, quick, as_json, profile
        )
        code = run_benchmark(options)
    raise typer.Exit(code)
