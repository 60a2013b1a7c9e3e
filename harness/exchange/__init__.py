"""Results that other trainers made: read from their files, kept as marked records of a store."""
