"""What a machine or a place is checked for, and how the findings are told."""
