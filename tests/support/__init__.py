"""Test harness: random queries and ways to run them, crashes, damage, full disks, cases in plain text.

Builds on `penstock.testing`, the kit for users, and imports nothing of bench, cli and spark.

    queries/   random rows, and random queries over them
    trials/    a random query run in random ways against the batch answer; a failing one is shrunk and printed
    cases/     readable query tests in plain text, the .case files of `tests/cases`
    damage/    checkpoints with damaged files: `python -m tests.support.damage`
    fuzz       thousands of random trials: `python -m tests.support.fuzz`
    crashes    queries that die at fault points, and what must hold afterwards; looping, schedules, skew, gate,
               hosts and reading_ahead run its scenarios in other ways
"""
