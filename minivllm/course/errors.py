"""The one error that an unwritten exercise raises."""


class ExerciseNotStarted(NotImplementedError):
    """A learner has not begun this exercise; the message is its id: "ch00.blocks_needed"."""
