"""The few error types of the package.

Each one is also a `ValueError` or a `RuntimeError`, so that callers who know nothing of
minivllm still catch them. A user's mistake is a `ValueError`: the message names the value and
the remedy. What went wrong inside a running engine is a `RuntimeError`.
"""


class ConfigError(ValueError):
    """A setting, or a combination of settings, that cannot work."""


class RequestError(ValueError):
    """A request that this engine can never serve: it is refused before it is queued."""


class ModelNotFoundError(ValueError):
    """A model name that leads to no folder, package or repository."""


class CheckpointError(ValueError):
    """A checkpoint's files are missing, damaged, or do not fit the model they claim to be."""


class MissingShardError(CheckpointError, FileNotFoundError):
    """A weight file that the checkpoint's index names is not in its folder."""


class EngineDeadError(RuntimeError):
    """The engine was shut down, or could not recover, and takes no more work."""
