"""From plans and records to a tidy frame, and from there to tables and figures. Never imports torch."""
