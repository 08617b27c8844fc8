"""Deliberate faults, each of which must make a named test fail. A fault that no test notices is a hole in the tests."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import probsym.ase.base
from probsym import groups, nets, placement, samplers, testing
from probsym.estimate import Average
from probsym.groups import euclidean, images, orthogonal, planar, symmetric
from probsym.nets import MaskedBatchNorm
from probsym.ops import Order, SoftSort, eigenspaces
from probsym.ops.seeded import Seeded
from probsym.samplers import batch as batches
from probsym.samplers import from_haar, haar, learned, principal_axes, projection
from probsym.samplers import noise as noises
from probsym.samplers.draw import Draw
from probsym.symmetrized import Symmetrized
from tests import test_ase, test_equivariance, test_seeds, test_symmetrized
from tests.groups import test_images, test_laws, test_signs
from tests.nets import test_vn_dgcnn_scalars
from tests.ops import test_masked_batch_norm
from tests.samplers import test_canonical, test_energy, test_frame, test_learned

Patch = Callable[[pytest.MonkeyPatch], None]
MUTANTS: dict[str, tuple[Patch, Callable[[], object]]] = {}


def mutant(noticed_by: Callable[..., object], *arguments: object) -> Callable[[Patch], Patch]:
    """Register a fault together with the test that notices it."""

    def register(patch: Patch) -> Patch:
        MUTANTS[patch.__name__] = patch, lambda: noticed_by(*arguments)
        return patch

    return register


coupled = test_equivariance.test_coupled
F64 = torch.float64


@mutant(test_seeds.test_an_item_is_the_same_alone_and_in_any_batch, "S", "Learned", F64)
def seeds_that_count_padding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Seeded, "along", lambda self, real: self)


@mutant(test_vn_dgcnn_scalars.test_follows_rotations_and_permutations, 5, False)
def scalars_by_the_place_of_a_point(monkeypatch: pytest.MonkeyPatch) -> None:
    right = nets.VNDGCNN._joined_scalars
    monkeypatch.setattr(
        nets.VNDGCNN,
        "_joined_scalars",
        lambda self, inputs, x: right(self, tuple(tensor.sort(-2)[0] for tensor in inputs), x),
    )


@mutant(test_ase.test_forces_and_stress_follow_the_rotation_of_a_cell, True)
def stress_that_is_not_turned_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(probsym.ase.base.TERMS, "stress", "i j")


@mutant(coupled, "S", "Haar", "none", F64)
def composition_in_the_wrong_order(monkeypatch: pytest.MonkeyPatch) -> None:
    right = groups.S.compose
    monkeypatch.setattr(groups.S, "compose", lambda self, g, h: right(self, h, g))


@mutant(coupled, "O(3)", "Haar", "none", F64)
def forgotten_inverse_on_the_output(monkeypatch: pytest.MonkeyPatch) -> None:
    def apply(self: Draw, batch: samplers.Batch, outputs: list[Tensor]) -> tuple[Tensor, ...]:
        back = {
            key: batch.signature.groups[key].inverse(carrier) if isinstance(carrier, Tensor) else carrier
            for key, carrier in self.carriers.items()
        }
        turned = Draw(self.count, self.elements, back)
        terms = zip(batch.signature.outputs, outputs, strict=True)
        return tuple(turned._moved(batch, term, y, turned._turns(), undo=False) for term, y in terms)

    monkeypatch.setattr(Draw, "apply", apply)


@mutant(coupled, "E(3)", "Quadrature", "none", F64)
def rule_that_is_not_turned(monkeypatch: pytest.MonkeyPatch) -> None:
    right = samplers.Quadrature.forward

    def forward(self: samplers.Quadrature, batch: samplers.Batch, noise: samplers.Noise) -> Draw:
        still = {key: batch.groups[key].identity(g.shape[:2], dtype=g.dtype) for key, g in noise.elements.items()}
        return right(self, batch, noise._replace(elements=still))

    monkeypatch.setattr(samplers.Quadrature, "forward", forward)


@mutant(test_energy.test_images_in_every_orientation, 0.5)
def forgotten_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Draw, "weighted", lambda self, weights: self)


@mutant(test_images.test_quarter_turns_are_exact_in_the_disc_and_zero_outside, 7)
def image_turned_the_other_way(monkeypatch: pytest.MonkeyPatch) -> None:
    right = images.turn_image
    for module in (orthogonal, planar):
        monkeypatch.setattr(module, "turn_image", lambda matrix, x, rows: right(matrix.mT, x, rows))


@mutant(test_signs.test_the_straight_through_gradient_is_that_of_tanh)
def signs_whose_gradient_forgets_the_temperature(monkeypatch: pytest.MonkeyPatch) -> None:
    right = groups.Signs.choose
    monkeypatch.setattr(groups.Signs, "choose", lambda self, features, tau: right(self, features, tau=1.0))


@mutant(coupled, "S", "Learned", "none", F64)
def outputs_left_in_sorted_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Order, "unsort", lambda self, y, axis=-1: y)


@mutant(coupled, "S", "Learned", "none", F64)
def outputs_sorted_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SoftSort, "unsort", lambda self, y, axis=-1: self.sort(y, axis))


@mutant(coupled, "SE(3)", "Haar", "none", F64)
def translation_added_to_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    def translate(x: Tensor, term: object, key: str, shift: Tensor, masks: object) -> Tensor:
        fits = x.shape[-1] == shift.shape[-1]
        return x + shift.view(len(x), *(1 for _ in x.shape[2:]), -1) if fits else x

    monkeypatch.setattr(batches, "translate", translate)


@mutant(coupled, "SE(3)", "Haar", "none", F64)
def points_left_about_the_origin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement, "translate", lambda y, term, key, shift, masks: y)


@mutant(coupled, "E(3)", "Haar", "none", F64)
def centroid_not_subtracted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "_centroid", lambda key, signature, inputs, masks: torch.zeros(len(inputs[0]), 3))


@mutant(coupled, "E(3)", "Haar", "holes", F64)
def centroid_over_padding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "_count", lambda x, term, place, masks: x.shape[1])


@mutant(test_masked_batch_norm.test_padding_has_no_say, 1e3, True)
def statistics_over_padding(monkeypatch: pytest.MonkeyPatch) -> None:
    right = MaskedBatchNorm.forward
    monkeypatch.setattr(MaskedBatchNorm, "forward", lambda self, x, mask=None: right(self, x))


@mutant(coupled, "S", "Haar", "garbage", F64)
def padding_not_zeroed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "zero_padding", lambda x, term, masks: x)


@mutant(coupled, "S", "Haar", "holes", F64)
def permutations_that_mix_padding_with_items(monkeypatch: pytest.MonkeyPatch) -> None:
    right = groups.S.haar
    monkeypatch.setattr(groups.S, "haar", lambda self, batch=(), mask=None, **options: right(self, batch, **options))


@mutant(coupled, "S", "Learned", "holes", F64)
def scores_of_padding_sorted_among_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    right = symmetric.soft_sort
    monkeypatch.setattr(symmetric, "soft_sort", lambda z, mask=None, **options: right(z, **options))


@mutant(test_learned.test_draws_are_independent)
def noise_reused_across_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    right = samplers.Learned.noise

    def noise(self: samplers.Learned, batch: samplers.Batch, draws: int, *rest: object, **options: object) -> object:
        drawn = right(self, batch, draws, *rest, **options)  # type: ignore[arg-type]
        return torch.utils._pytree.tree_map(lambda tensor: tensor[:, :1].expand_as(tensor), drawn)

    monkeypatch.setattr(samplers.Learned, "noise", noise)


@mutant(test_symmetrized.test_oracle, "S", "zero", F64)
def sizes_tiled_instead_of_interleaved(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Draw.masks

    def masks(self: Draw, batch: samplers.Batch) -> dict[str, Tensor]:
        interleaved = right(self, batch)
        return {name: mask.transpose(0, 1).reshape(mask.shape) for name, mask in interleaved.items()}

    monkeypatch.setattr(Draw, "masks", masks)


@mutant(test_symmetrized.test_draws_fold_interleaved)
def draws_folded_in_the_wrong_order(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Draw.undo

    def undo(self: Draw, batch: samplers.Batch) -> tuple[Tensor, ...]:
        return tuple(x.transpose(0, 1).reshape(x.shape) for x in right(self, batch))

    monkeypatch.setattr(Draw, "undo", undo)


@mutant(test_frame.test_pca_is_the_sum_over_the_signs_of_the_axes, groups.O(3), "d", False, F64)
def signs_dropped_from_the_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(principal_axes, "_with_signs", lambda axes: axes)


@mutant(coupled, "O(3)", "Frame draws", "none", F64)
def signs_that_the_eigensolver_chose(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eigenspaces.Eigenspaces, "project", lambda self, z: self.vectors.expand_as(z))


@mutant(coupled, "S x O(3)", "FromHaar", "none", F64)
def a_side_of_its_own_for_each_factor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each factor is looked at from its own side, the other left as it is."""

    def forward(self: samplers.FromHaar, batch: samplers.Batch, noise: samplers.Noise) -> Draw:
        features = {}
        elements = noises.haar_elements(batch, noise.draws() or 1, torch.Generator().manual_seed(0)).elements
        for key in batch.signature.groups:
            rest = {name: elements[name][:, :1].expand_as(elements[name]) for name in elements if name != key}
            side = haar.from_elements(batch, noise._replace(elements={**rest, key: noise.elements[key]}))
            inputs = [side.undo(batch)[i].flatten(0, 1) for i in self.reads or range(len(batch.inputs))]
            output = from_haar._unfolded(self.net(*inputs), len(batch), side.count)
            z = projection.by_axis(batch, output, side.count)[key]
            features[key] = batch.signature.groups[key].move(side.elements[key], z)
        return projection.project(batch, features, noise, noise.draws() or 1, tau=self.tau)

    monkeypatch.setattr(samplers.FromHaar, "forward", forward)


@mutant(coupled, "S x SE(3)", "FromHaar", "none", F64)
def elements_not_turned_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups.S, "move", lambda self, g, z: z)


@mutant(coupled, "S", "Learned", "none", F64)
def fixed_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learned.Learned, "move", lambda self, signature, g, noise: noise)


@mutant(test_laws.test_laws, groups.O(3), None, (4,), F64)
def axial_vectors_as_plain_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    flat = lambda g: torch.ones_like(g[..., :1, :1])  # noqa: E731
    monkeypatch.setattr(orthogonal, "determinant_sign", flat)
    monkeypatch.setattr(euclidean, "determinant_sign", flat)


@mutant(test_frame.test_pca_is_the_sum_over_the_signs_of_the_axes, groups.SO(3), "d", False, F64)
def reflections_among_the_rotations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(principal_axes, "_proper", lambda axes: axes)


@mutant(test_canonical.test_nodes_of_a_vertex_transitive_graph_are_shuffled, (1.0,), 1, 0, F64)
def ties_broken_by_place(monkeypatch: pytest.MonkeyPatch) -> None:
    right = symmetric.soft_sort
    monkeypatch.setattr(symmetric, "soft_sort", lambda z, ties=None, **options: right(z, **options))


@mutant(test_frame.test_frames_of_different_sizes_in_one_batch, F64)
def weights_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Average.add

    def add(self: Average, values: list[Tensor], draw: Draw) -> None:
        right(self, values, Draw(draw.count, draw.elements, draw.carriers))

    monkeypatch.setattr(Average, "add", add)


@mutant(coupled, "S", "Canonical", "none", F64)
def scores_that_know_the_places(monkeypatch: pytest.MonkeyPatch) -> None:
    right = nets.GIN.forward

    def forward(self: nets.GIN, *inputs: Tensor, mask: Tensor | None = None) -> nets.Features:
        scores = right(self, *inputs, mask=mask).scores
        assert isinstance(scores, Tensor)
        return nets.Features(scores=scores + torch.arange(scores.shape[-1]))

    monkeypatch.setattr(nets.GIN, "forward", forward)


@pytest.mark.parametrize("name", MUTANTS)
def test_fault_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    patch, noticed = MUTANTS[name]
    noticed()  # and passes without the fault
    patch(monkeypatch)
    with pytest.raises(AssertionError):
        noticed()


def test_fixed_noise_option_is_named_as_the_reason() -> None:
    sampler = samplers.Learned(nets.DeepSets(2), fixed_noise=True)
    model = Symmetrized(lambda x: x[:, 0], "n c -> c", {"n": groups.S()}, sampler, samples=4)
    with pytest.raises(AssertionError, match="fixed noise belongs to the example"):
        testing.assert_equivariant(model, torch.randn(4, 6, 2), index=torch.arange(4))
