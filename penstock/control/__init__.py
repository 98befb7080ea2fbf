"""Steering and watching a run from outside: requests, their answers, and the status that a run shows."""
