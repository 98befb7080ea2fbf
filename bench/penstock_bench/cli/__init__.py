"""`penstock bench`: an entry point of the group `penstock.commands`."""
