"""Batch oracle: the same query over the same rows, computed at once by DuckDB."""

from penstock.testing.oracle.batch import Batch, Late, answer_and_late, batch_answer, opened

__all__ = ["Batch", "Late", "answer_and_late", "batch_answer", "opened"]
