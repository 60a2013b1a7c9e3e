"""What people do with a store: list, check, clear away, import."""
