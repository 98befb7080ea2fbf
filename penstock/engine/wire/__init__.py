"""Messages between the driver and the tasks: jobs, reports, and blobs of rows."""
