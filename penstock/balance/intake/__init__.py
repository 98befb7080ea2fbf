"""Intake: the number of rows that each source may send in an epoch. Pure."""
