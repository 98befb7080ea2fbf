"""The checkpoint: a folder whose newest manifest is the committed state of a query. Plain Arrow IPC and JSON; nothing
in it is executed.

Files are returned intact, or the error names the file that is damaged.
"""
