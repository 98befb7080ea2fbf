"""The driver: plan an epoch, run it, commit, publish, adapt, recover."""
