"""Kernels: arrays in, arrays out. They know nothing of operators, state or plans."""
