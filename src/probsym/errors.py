"""Every error that probsym raises on purpose.

Messages follow one form, "Expected ... (got ...)", and name the argument, term or axis at fault.
All classes derive from `ProbsymError` and from the built-in exception that a caller would expect.
"""


class ProbsymError(Exception):
    """Base class: `except ProbsymError` catches whatever the library refuses."""


class SignatureError(ProbsymError, ValueError):
    """The notation itself is malformed, or does not fit the groups it is bound to."""


class ShapeError(ProbsymError, ValueError):
    """A tensor has the wrong rank or size."""


class DtypeError(ProbsymError, TypeError):
    """A tensor has the wrong dtype, or an argument has the wrong type."""


class DeviceError(ProbsymError, ValueError):
    """Tensors of one call live on different devices."""


class MaskError(ProbsymError, ValueError):
    """A mask is ambiguous, or does not fit the tensors it masks."""


class GroupError(ProbsymError, ValueError):
    """A group cannot be built, or cannot act in the way it was asked to."""


class RangeError(ProbsymError, ValueError):
    """A number is outside the range in which the operation is defined."""


class DerivativeError(ProbsymError, RuntimeError):
    """This derivative is not implemented."""


class TracingError(ProbsymError, RuntimeError):
    """This cannot be exported or mapped: it depends on the values of the inputs, or the format has no such thing."""


class RankError(ProbsymError, ArithmeticError):
    """Features do not span the space and no noise was given to complete them."""


class NonFiniteError(ProbsymError, ArithmeticError):
    """A tensor holds NaN or infinity where real numbers are needed."""


class CheckpointError(ProbsymError, ValueError):
    """A file of weights is broken, unsafe, or does not fit the model."""


class DependencyError(ProbsymError, ImportError):
    """An optional library is needed and is not installed."""


class DataError(ProbsymError, FileNotFoundError):
    """A data file is missing, or is not the expected file."""


class WriteError(ProbsymError, OSError):
    """A file cannot be written: the disk is full, for instance, or the folder read-only."""


class RecipeError(ProbsymError, KeyError):
    """An unknown recipe, setting or table."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class Stopped(ProbsymError, InterruptedError):  # noqa: N818, nothing went wrong
    """A run was interrupted; its checkpoint is on disk."""


class RunError(ProbsymError, RuntimeError):
    """A run cannot start, continue or be read."""
