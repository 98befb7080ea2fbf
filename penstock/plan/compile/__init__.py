"""From a logical plan to a program: subqueries, each with one stateful operator, joined by branches."""
