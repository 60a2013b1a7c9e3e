"""From raw files to what the published tasks read: found or fetched, checked, made into shards."""
