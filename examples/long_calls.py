"""Callers with long calls, from Python. Run it from this folder with: penstock run long_calls:long_calls"""

import penstock as ps

calls = ps.read.calls(rows=500_000, rate=20_000, keys=1_000, disorder="2s")

long_calls = (
    calls.where(ps.col("duration") > 600)
    .group_by("caller")
    .window(ps.tumbling("10s"))
    .agg(n=ps.count(), longest=ps.max("duration"))
    .where(ps.col("n") > 2)
)

if __name__ == "__main__":
    run = long_calls.to.memory().start(master="inline").wait()
    print(run.pandas())
