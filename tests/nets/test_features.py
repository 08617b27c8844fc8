import pytest
import torch

from probsym import nets
from probsym.nets import Features


def test_features_are_frozen_and_compare_by_identity():
    features = Features(vectors={"d": torch.eye(3)})
    assert features.scores is None
    assert features == features  # noqa: PLR0124
    assert features != Features(vectors={"d": torch.eye(3)})
    with pytest.raises(AttributeError):
        features.scores = torch.zeros(1)


def test_every_registered_net_is_exported_under_its_name():
    assert all(getattr(nets, name) is net and name == net.__name__ for name, net in nets.NETS.items())
