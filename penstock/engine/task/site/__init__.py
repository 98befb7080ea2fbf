"""The step of a site: merge what arrived, work until the deadline, write state, report."""
