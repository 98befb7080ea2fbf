"""The tasks of an epoch: read and route a split, or run the step of a site."""
