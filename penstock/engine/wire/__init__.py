"""What travels between driver and tasks: jobs, reports, and blobs of rows."""
