"""Prepare the rows that leave a task: stateless steps, late rows, and delivery to sites or to the sink."""
