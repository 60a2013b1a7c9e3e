"""The figures: what they show, how they are drawn, and the folder they go into."""
