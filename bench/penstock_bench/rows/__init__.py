"""The input of the benchmark: streams by name, the generators of their rows, and the files of those rows."""
