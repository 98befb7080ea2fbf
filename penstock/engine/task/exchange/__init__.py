"""From rows to what leaves a task: stateless steps, late rows, and delivery to sites or to the sink."""
