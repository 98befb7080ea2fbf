"""Kernels: functions from arrays to arrays. They know nothing of operators, state or plans."""
