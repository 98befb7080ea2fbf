"""The step of a site: merge the blobs, work until the deadline, write state, report."""
