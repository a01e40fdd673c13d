"""The course: what makes its generated files, and what says how an exercise is doing."""
