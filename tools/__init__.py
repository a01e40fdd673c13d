"""Programs that make what ships, and the test runner; nothing here is needed at run time."""
