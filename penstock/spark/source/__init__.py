"""Any streaming DataFrame as a source."""
