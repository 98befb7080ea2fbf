"""Compilation of a logical plan to a program: subqueries, each with one stateful operator, connected by branches."""
