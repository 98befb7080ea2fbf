"""A trial as a case in Penstock's SQL."""
