"""Measurements as a table, as JSON and as a page with charts, and the bars that were reached."""
