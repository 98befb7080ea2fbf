"""An embedded Spark: finding Java, starting and ending the JVM, its class archive."""
