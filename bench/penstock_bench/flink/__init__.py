"""Apache Flink as a peer, in an environment and a process of its own."""
