"""The plain data that a chapter's widget draws, one file a chapter."""
