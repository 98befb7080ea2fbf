"""Which benchmark `penstock bench` is to run: workloads, the experiments on order, or the other experiments."""

from __future__ import annotations

from penstock.errors import ConfigError
from penstock_bench.cli.command import ORDER
from penstock_bench.cli.workloads import DEFAULT_REPEAT, BenchOptions, run_and_report
from penstock_bench.experiments.by_name import experiment_names
from penstock_bench.workloads import WORKLOADS


def benchmark_names() -> list[str]:
    """All that can be named."""
    return [*WORKLOADS, ORDER, *experiment_names()]


def run_benchmark(options: BenchOptions) -> int:
    """Run what the names are. They must be of one kind: each kind has a report of its own."""
    if ORDER in options.names:
        return _order(options)
    if not set(experiment_names()).isdisjoint(options.names):
        return _experiments(options)
    _refuse("workloads", {"--quick": options.quick})
    return run_and_report(options)


def _order(options: BenchOptions) -> int:
    from penstock_bench.cli.order import run_order_and_report

    others = [name for name in options.names if name != ORDER]
    _refuse(f"`{ORDER}`", {**dict.fromkeys(others, True), **_of_workloads(options)})
    return run_order_and_report(options.quick, options.repeat or 1, options.report, options.json)


def _experiments(options: BenchOptions) -> int:
    from penstock_bench.cli.experiments import run_experiments

    _refuse("experiments", _of_workloads(options))
    repeat = options.repeat or DEFAULT_REPEAT
    return run_experiments(options.names, repeat, options.work, options.json, options.report, options.quick)


def _of_workloads(options: BenchOptions) -> dict[str, object]:
    """The options that only workloads have."""
    return {
        "--rows": options.rows,
        "--systems": options.systems,
        "--memory": options.memory,
        "--files-per-trigger": options.files_per_trigger,
        "--profile": options.profile,
    }


def _refuse(what: str, options: dict[str, object]) -> None:
    given = [name for name, value in options.items() if value]
    if given:
        raise ConfigError(
            f"{what} cannot be run with {', '.join(given)}",
            detail=f"`{ORDER}` is a benchmark of its own, and so are experiments; each has its own options",
            hint="penstock bench --help says which",
        )
