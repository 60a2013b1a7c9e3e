"""Upkeep of a store: list runs, check files, remove leftovers, import, pack."""
