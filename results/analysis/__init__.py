"""From plans and records to a tidy frame, to selection and statistics."""
