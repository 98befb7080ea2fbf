"""Control and monitoring of a run from outside: requests, their answers, and the status of the run."""
