"""What tests share: tiny runs, stores, searches, a cluster. No test imports another test."""
