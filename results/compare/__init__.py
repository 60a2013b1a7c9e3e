"""Our runs behind the published numbers: the paper's tables, figures and ledger start from here."""
