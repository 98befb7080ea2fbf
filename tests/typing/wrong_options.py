"""Options that type checkers refuse: every line marked with `refused` must be an error. Checked by test_typing.py."""

import penstock as ps

ps.read.files("calls", time="ts", formt="csv")  # refused
ps.read.files("calls", time="ts", format="cvs")  # refused
ps.read.files("calls", time="ts", substreams="file")  # refused
ps.read.batches([[{"ts": 1}]], time="ts", split_per_batch=2)  # refused
calls = ps.read.calls(rows=10, disordr="2s")  # refused
calls.to.files("out", compression="gzip")  # refused
calls.to.files("out", fromat="arrow")  # refused
ready = calls.to.memory()
ready.start("ck", site=2)  # refused
ready.start("ck", sites="two")  # refused
ready.start("ck", flush="soon")  # refused
ready.start("ck", epoch=2.5)  # refused
ready.explain(ordr="in")  # refused
ready.explain(until="3 epochs")  # refused
