import inspect

import pytest

from probsym import errors

BUILT_INS = {
    "SignatureError": ValueError,
    "ShapeError": ValueError,
    "DtypeError": TypeError,
    "DeviceError": ValueError,
    "MaskError": ValueError,
    "GroupError": ValueError,
    "RangeError": ValueError,
    "DerivativeError": RuntimeError,
    "TracingError": RuntimeError,
    "RankError": ArithmeticError,
    "NonFiniteError": ArithmeticError,
    "CheckpointError": ValueError,
    "DependencyError": ImportError,
    "DataError": FileNotFoundError,
    "WriteError": OSError,
    "RecipeError": KeyError,
    "RunError": RuntimeError,
    "Stopped": InterruptedError,
}


def test_the_table_lists_every_error() -> None:
    classes = {
        name for name, member in inspect.getmembers(errors, inspect.isclass) if member.__module__ == errors.__name__
    }
    assert classes == {*BUILT_INS, "ProbsymError"}


@pytest.mark.parametrize(("name", "built_in"), BUILT_INS.items())
def test_errors_are_probsym_errors_and_the_built_in_a_caller_expects(name: str, built_in: type[Exception]) -> None:
    error = getattr(errors, name)
    assert error.__bases__ == (errors.ProbsymError, built_in)
    assert error.__doc__
    assert str(error("Expected one (got two)")) == "Expected one (got two)"
    for caught in (errors.ProbsymError, built_in):
        with pytest.raises(caught, match="got two"):
            raise error("Expected one (got two)")


def test_the_base_class_is_no_built_in_that_callers_catch() -> None:
    assert errors.ProbsymError.__bases__ == (Exception,)
