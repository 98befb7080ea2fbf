"""The checkpoint: a folder whose newest manifest is the truth. Plain Arrow IPC and JSON; nothing in it is evaluated.

Takes files and manifests, gives them back whole or names the one that is broken.
"""
