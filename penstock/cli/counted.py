"""A number of things, as one says it."""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")
