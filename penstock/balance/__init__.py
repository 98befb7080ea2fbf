"""Load balancing: how many rows a source may send, and which site owns which partition group. Pure: statistics in,
decisions out."""
