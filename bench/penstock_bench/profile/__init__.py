"""Where the time of a run goes, as numbers, tables and pictures."""
