"""What a run takes, known before it starts."""
