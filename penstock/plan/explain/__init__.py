"""The text of a plan, for users."""
