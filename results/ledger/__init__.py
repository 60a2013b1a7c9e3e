"""The ledger: every published number beside ours with a verdict, and every published ordering likewise."""
