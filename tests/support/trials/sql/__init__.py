"""A trial written in Penstock's SQL, as a case."""
