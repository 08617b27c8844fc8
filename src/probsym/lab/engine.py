"""One model with its optimiser on its device: training steps and evaluations, plain, compiled or captured."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from lightning.fabric import Fabric
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn

from probsym.errors import RunError
from probsym.lab.capture import Captured
from probsym.lab.collectives import average_gradients, copy_from_first, gathered
from probsym.lab.examples import Examples, Splits, Stored
from probsym.lab.kept_weights import KeptWeights
from probsym.lab.methods import takes_draws
from probsym.lab.recipe import Settings, Task
from probsym.lab.seeds import derived, seeded
from probsym.samplers import Noise
from probsym.symmetrized import Symmetrized

COMPILER = {"triton.autotune_pointwise": False, "comprehensive_padding": False, "inplace_buffers": False}
"""Elementwise kernels are not tried in several shapes, each of which has to be compiled. Strides are not padded: torch
before 2.13 may write a buffer with padded strides and read it with others, which gives wrong gradients without a word
(pytorch issue 179931). Buffers are not overwritten, as a precaution: where a kernel overwrites numbers and sums them
too, such a sum was sometimes wrong on a GPU (docs/guide/speed.md)."""
LARGEST_BATCH = 100
"""How often each example may occur in a batch."""


class Engine:
    """Steps over data that live on the device.

    Draws of step i are a function of the seed and of i, and are made for the whole batch in every process, of which
    each takes its part: neither an interruption nor the number of processes changes them. The loss is that of the whole
    batch, whose outputs all processes see, so it need not be a mean over examples. Dropout differs by process.

    Args:
        seed: from which the model has its weights, if any: a training of that seed begins with them.
        compile: whether the forward pass and the loss of a step are compiled, as one graph; of several processes, the
            forward pass alone.
        capture: whether whole steps are CUDA graphs.

    `kept_weights` are what can be told of earlier weights, where the model comes from a run.
    """

    kept_weights: KeptWeights | None = None

    def __init__(
        self,
        fabric: Fabric,
        model: nn.Module,
        task: Task,
        settings: Settings,
        data: Splits,
        *,
        seed: int | None = None,
        compile: bool = False,
        capture: bool = False,
    ) -> None:
        self.fabric, self.task, self.settings = fabric, task, settings
        self.device, self.world = fabric.device, fabric.world_size
        if settings.batch_size % self.world:
            raise RunError(f"Expected batch_size {settings.batch_size} to divide among {self.world} processes")
        if settings.batch_size > LARGEST_BATCH * data.train.size:
            raise RunError(
                f"Expected batch_size to be at most {LARGEST_BATCH} times the {data.train.size} examples to learn from "
                f"(got {settings.batch_size})"
            )
        if compile and task.differentiates is not None:
            # torch 2.13 traces a gradient inside, but leaves out part of what custom functions give it, without a word
            raise RunError(f"Expected no compiled steps where forces are in the loss (got task {task.name!r})")
        if capture and (self.device.type != "cuda" or self.world > 1):
            raise RunError(f"Expected one CUDA device to capture steps on (got {self.world} of {self.device.type})")
        few = data.train.take(slice(0, 1))
        if settings.input_noise:  # tasks that can have none refuse it
            task.disturbed(few, settings.input_noise, torch.Generator())
        if settings.huber:
            task.huber_loss(few.targets, few.targets, settings.huber)
        self.data = data.to(self.device)
        self.seed = seed
        self.initial = {} if seed is None else {name: tensor.clone() for name, tensor in model.state_dict().items()}
        self.model = model.to(self.device)
        self.module: nn.Module = self.model.estimator() if isinstance(self.model, Symmetrized) else self.model
        self.average = (
            [parameter.detach().clone() for parameter in self.model.parameters()] if settings.averaging else None
        )
        self._blend = get_ema_multi_avg_fn(settings.averaging)
        self.optimiser = self._optimiser(capture)
        self.generator = torch.Generator(self.device)
        self.outputs: Callable[[Examples, Noise | None], tuple[Tensor, Tensor | None]] = self._outputs
        self.losses: Callable[[Examples, Noise | None, Tensor], Tensor] = self._losses
        if compile and self.world == 1:
            self.losses = torch.compile(self._losses, fullgraph=True, dynamic=False, options=dict(COMPILER))
        elif compile:
            self.outputs = torch.compile(self._outputs, fullgraph=True, dynamic=False, options=dict(COMPILER))
        self._step: Callable[[Tensor], Tensor] = self._train
        self._evaluations: dict[tuple[int, int, int | None], Callable[[Tensor], Tensor]] = {}
        self.capture = capture
        if capture:
            self.model.train()
            batch = torch.arange(settings.batch_size, device=self.device) % self.data.train.size
            self._step = Captured(self._train, batch, self.generator)
        self.fresh_optimiser()

    @property
    def steps_per_epoch(self) -> int:
        """Batches of full size in the training set; the rest of each shuffled epoch is left out."""
        return max(1, self.data.train.size // self.settings.batch_size)

    @property
    def draws(self) -> bool:
        """Whether the model averages over draws, of which evaluations can ask for more or fewer."""
        return isinstance(self.model, Symmetrized) and takes_draws(self.model.sampler)

    def order(self, seed: int, epoch: int) -> Tensor:
        """The batches of an epoch, (steps, batch_size)."""
        generator = torch.Generator().manual_seed(derived(seed, "order", epoch))
        count, size = self.data.train.size, self.settings.batch_size
        index = torch.randperm(count, generator=generator)
        if count < size:
            index = index.repeat(-(-size // count))
        return index[: self.steps_per_epoch * size].view(-1, size).to(self.device)

    def train_step(self, index: Tensor, seed: int, step: int) -> Tensor:
        """One step on the examples `index`; the total loss and the task's own, (2,), overwritten by the next step.

        Dropout can only draw from the global generator, which is seeded here.
        """
        self._set_rate(step)
        self.generator.manual_seed(derived(seed, "draws", step))
        torch.manual_seed(derived(seed, f"dropout {self.fabric.global_rank}", step))
        return self._step(index)

    def evaluate(
        self, part: Stored, seed: int, purpose: str, count: int = 0, *, samples: int | None = None
    ) -> dict[str, float]:
        """The task's metrics over some examples, the loss among them; `samples` draws if the model makes several."""
        self.model.eval()
        indices = torch.arange(part.size, device=self.device).split(max(self.settings.batch_size, 200))
        with torch.no_grad():
            calls = [self._evaluation(part, index, samples) for index in indices]
            self.generator.manual_seed(derived(seed, purpose, count))  # now: capturing has drawn from it too
            with seeded(self.device, derived(seed, f"{purpose} dropout", count)):
                outputs = [call(index).clone() for call, index in zip(calls, indices, strict=True)]
            metrics = self.task.metrics(torch.cat(outputs), part.targets, part.mask)
        self.model.train()
        return {name: float(value) for name, value in metrics.items()}

    def start(self, weights: dict[str, Tensor]) -> None:
        """Begin a training with these weights: they are also the first average, and the optimiser knows nothing."""
        self.model.load_state_dict(weights)
        if self.world > 1:  # machines that are not alike may differ in the last digit of what a seed gives
            copy_from_first(self.model.state_dict().values())
        self._set_average([parameter.detach() for parameter in self.model.parameters()])
        self.fresh_optimiser()

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """The model with the averaged weights; buffers, such as statistics of norms, are the model's own."""
        assert self.average is not None
        parameters = [parameter.detach() for parameter in self.model.parameters()]
        plain = [parameter.clone() for parameter in parameters]
        torch._foreach_copy_(parameters, self.average)
        try:
            yield
        finally:
            torch._foreach_copy_(parameters, plain)

    def fresh_optimiser(self) -> None:
        """Forget all that earlier steps left in the optimiser; its memory stays where it is."""
        for state in self.optimiser.state.values():
            for value in state.values():
                if isinstance(value, Tensor):
                    value.zero_()

    def state(self) -> dict[str, Any]:
        """Weights, their average and optimiser."""
        state = {"model": self.model.state_dict(), "optimiser": self.optimiser.state_dict()["state"]}
        return state if self.average is None else {**state, "average": self.average}

    def load(self, state: dict[str, Any]) -> None:
        """Take back what `state` gave, into the memory that captured steps use."""
        self.model.load_state_dict(state["model"])
        self._set_average(state.get("average", []))
        groups = self.optimiser.state_dict()["param_groups"]
        if not self.optimiser.state:
            self.optimiser.load_state_dict({"state": state["optimiser"], "param_groups": groups})
            return
        self.fresh_optimiser()
        parameters = [parameter for group in self.optimiser.param_groups for parameter in group["params"]]
        for i, values in state["optimiser"].items():
            for name, value in values.items():
                self.optimiser.state[parameters[i]][name].copy_(value)

    def _set_average(self, weights: list[Tensor]) -> None:
        """Into the memory that captured steps use."""
        if self.average is not None:
            torch._foreach_copy_(self.average, weights)

    def _optimiser(self, capture: bool) -> torch.optim.Optimizer:
        settings = self.settings
        rate: Any = settings.learning_rate
        if capture:
            rate = torch.tensor(rate, device=self.device)
        kind = torch.optim.AdamW if settings.decoupled else torch.optim.Adam
        weights, decay = self.model.parameters(), settings.weight_decay
        return kind(weights, lr=rate, weight_decay=decay, fused=True, capturable=capture)

    def _set_rate(self, step: int) -> None:
        rate = self.settings.rate(step / self.steps_per_epoch, 1 / self.steps_per_epoch)
        for group in self.optimiser.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate

    def _train(self, index: Tensor) -> Tensor:
        self.optimiser.zero_grad(set_to_none=True)
        batch = self.data.train.take(index)
        if self.settings.input_noise:
            batch = self.task.disturbed(batch, self.settings.input_noise, self.generator)
        noise, targets = self._noise(batch), batch.targets
        if self.world > 1:
            share = len(index) // self.world
            start = self.fabric.global_rank * share
            batch = batch.take(slice(start, start + share))
            noise = None if noise is None else noise.rows(start, start + share)
        losses = self.losses(batch, noise, targets)
        self.fabric.backward(losses[0])
        if self.world > 1:
            average_gradients(self.model.parameters())
        if self.settings.clip is not None:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.clip)
        self.optimiser.step()
        if self.average is not None:
            self._blend(self.average, list(self.model.parameters()), 0)
        losses = losses.detach()
        return self.fabric.all_reduce(losses, reduce_op="mean") if self.world > 1 else losses  # type: ignore[return-value]

    def _losses(self, batch: Examples, noise: Noise | None, targets: Tensor) -> Tensor:
        """The total loss, its entropy over this process' part of the batch, and the task's own, over all of it."""
        with self.fabric.autocast():
            output, entropy = self.outputs(batch, noise)
            output = gathered(output) if self.world > 1 else output
            bound = self.settings.huber
            own = self.task.huber_loss(output, targets, bound) if bound else self.task.loss(output, targets)
            total = own if entropy is None else own + self.settings.entropy * entropy
        return torch.stack([total.float(), own.float()])

    def _outputs(self, batch: Examples, noise: Noise | None) -> tuple[Tensor, Tensor | None]:
        """The outputs as the loss sees them, and the entropy if it is part of that."""
        inputs = self._inputs(batch)
        with self.fabric.autocast():
            if not isinstance(self.model, Symmetrized):
                return self._with_forces(self.module(*inputs, mask=batch.mask), inputs), None
            estimate = self.module(*inputs, mask=batch.mask, noise=noise, index=batch.ids)
            output = self._with_forces(estimate.mean, inputs)
        return output, estimate.losses["entropy"] if self.settings.entropy else None

    def _inputs(self, batch: Examples) -> tuple[Tensor, ...]:
        """Those of a batch, the one that the task differentiates in ready for it."""
        wanted = self.task.differentiates
        return tuple(x.detach().requires_grad_() if i == wanted else x for i, x in enumerate(batch.inputs))

    def _with_forces(self, output: Tensor, inputs: tuple[Tensor, ...]) -> Tensor:
        """The output as loss and metrics see it, with minus its gradient behind if the task differentiates it."""
        if self.task.differentiates is None:
            return output
        place = inputs[self.task.differentiates]
        (gradient,) = torch.autograd.grad(output.sum(), place, create_graph=self.model.training)
        return torch.cat([output.unsqueeze(1), -gradient.flatten(1)], 1)

    def _noise(self, batch: Examples, samples: int | None = None) -> Noise | None:
        if not isinstance(self.model, Symmetrized):
            return None
        samples = samples if self.draws else None
        return self.model.noise(*batch.inputs, **batch.keywords, samples=samples, generator=self.generator)

    def _evaluation(self, part: Stored, index: Tensor, samples: int | None) -> Callable[[Tensor], Tensor]:
        def outputs(index: Tensor) -> Tensor:
            batch = part.take(index)
            inputs, differentiates = self._inputs(batch), self.task.differentiates is not None
            with _float32() if self.settings.float32_evaluation else self.fabric.autocast():
                noise = self._noise(batch, samples)
                drawn = {} if noise is None else {"noise": noise, "index": batch.ids}
                with torch.set_grad_enabled(differentiates):
                    output = self._with_forces(self.model(*inputs, mask=batch.mask, **drawn), inputs).detach()
            return output if output.dtype == torch.float64 else output.float()

        if not self.capture:
            return outputs
        key = id(part.ids), len(index), samples
        if key not in self._evaluations:
            self._evaluations[key] = Captured(outputs, index, self.generator)
        return self._evaluations[key]


@contextmanager
def _float32() -> Iterator[None]:
    """Products of float32 matrices in float32, whatever the run's precision."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
