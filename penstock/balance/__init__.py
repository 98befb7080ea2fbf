"""Balance: how much a source may send, which group lives where. Pure: statistics in, decisions out."""
