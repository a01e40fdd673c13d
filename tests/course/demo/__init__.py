"""A chapter that only tests have: one tensor exercise, one state machine, one detective."""
