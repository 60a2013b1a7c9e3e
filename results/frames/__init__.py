"""From records and plans to the tidy frame, and from there to choices, statistics and summaries."""
