"""How much each source may send in an epoch. Pure."""
