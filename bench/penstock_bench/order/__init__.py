"""`penstock bench order`: queries over the same packets in order and out of order."""
