"""What an operator of queries sees from outside: the log."""
