"""Plan a SELECT: its rows, its groups, its columns."""
