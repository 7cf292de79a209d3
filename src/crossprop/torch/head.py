"""Crossprop for PyTorch: the last hidden layer and the head of a network of yours."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from crossprop._support import checks as check

RULES = ("exact", "projected", "approx")
ACTIVATIONS = ("tanh", "sigmoid", "relu")


class Crossprop(nn.Module):
    r"""A hidden layer and a linear head that learn by crossprop while the error passes through them.

    It learns in the backward pass, from the gradient of the loss by its outputs, whatever the loss, with steps of its
    own: its weights have no `.grad`, and an optimizer leaves them alone. The layers below get the error that backprop
    would give them. The equations are those of `crossprop.Crossprop` and `crossprop.CrosspropApprox`, with minus the
    gradient for $\delta$; with squared error that is the paper's if the loss is half of it.

    **Arguments:**

    - `inputs`, `hidden`, `outputs`: the sizes.
    - `step_size`: of all weights and the memory; `incoming_step_size`: of the weights into the hidden layer.
    - `rule`: `"exact"` keeps a memory per output for each incoming weight, `"projected"` one per projection,
      `"approx"` one for each outgoing weight.
    - `eta`: mixes backprop (1) with crossprop (0).
    - `projections`: how many random projections `"projected"` follows.
    - `activation`: `"tanh"`, `"sigmoid"` or `"relu"`. `bias`: whether both layers have biases, in their last row.

    It learns online: in training, `x` is one example, of shape `(inputs,)` or `(1, inputs)`. In evaluation, or while
    gradients are off, it can have any number of them, and nothing is learned.

    The parameters `incoming` and `outgoing` and the buffers `memory` and `signs` have the shapes of `crossprop.State`.

    ```python
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), Crossprop(8 * 30 * 30, 64, 10, step_size=1e-3))
    ```
    """

    incoming: nn.Parameter
    outgoing: nn.Parameter
    memory: Tensor
    signs: Tensor | None

    def __init__(
        self,
        inputs: int,
        hidden: int,
        outputs: int,
        step_size: float,
        *,
        rule: str = "exact",
        eta: float = 0.0,
        projections: int = 1,
        incoming_step_size: float | None = None,
        activation: str = "tanh",
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.inputs, self.hidden, self.outputs = (
            check.integer(name, value, low=1)
            for name, value in (("inputs", inputs), ("hidden", hidden), ("outputs", outputs))
        )
        check.choice("rule", rule, RULES)
        check.choice("activation", activation, ACTIVATIONS)
        self.step_size = check.scalar("step_size", step_size, above=0)
        own = step_size if incoming_step_size is None else incoming_step_size
        self.incoming_step_size = check.scalar("incoming_step_size", own, above=0)
        self.eta = check.scalar("eta", eta, low=0, high=1)
        self.rule, self.activation, self.bias = rule, activation, check.flag("bias", bias)
        projections = check.integer("projections", projections, low=1)
        self.incoming, self.outgoing = (
            nn.Parameter(_initial(*sizes, bias)) for sizes in ((inputs, hidden), (hidden, outputs))
        )
        memories = projections if rule == "projected" else outputs
        shape = (hidden, outputs) if rule == "approx" else (inputs + bias, hidden, memories)
        self.register_buffer("memory", torch.zeros(shape))
        signs = 2.0 * torch.randint(2, (projections, hidden, outputs)) - 1
        signs = torch.ones_like(signs) if outputs == 1 else signs  # nothing to project
        self.register_buffer("signs", signs if rule == "projected" else None)

    def forward(self, x: Tensor) -> Tensor:
        """The linear outputs; the backward pass learns, in training."""
        if x.shape[-1:] != (self.inputs,):
            raise ValueError(f"x must have shape (..., {self.inputs}), got {(*x.shape,)}")
        weights = (self.incoming, self.outgoing)
        learns = self.training and torch.is_grad_enabled() and all(each.requires_grad for each in weights)
        if not learns:
            return self._outputs(self._constant(self._units(x)[0]))
        if x.dim() > 2 or (x.dim() == 2 and len(x) != 1):
            raise ValueError(
                "Crossprop learns from one example at a time: "
                f"x must have shape ({self.inputs},) or (1, {self.inputs}), got {(*x.shape,)}"
            )
        return _Learn.apply(x, *weights, self)

    def extra_repr(self) -> str:
        sizes = f"{self.inputs}, {self.hidden}, {self.outputs}"
        return f"{sizes}, step_size={self.step_size}, rule={self.rule!r}, eta={self.eta}"

    def _constant(self, values: Tensor) -> Tensor:
        return torch.cat([values, torch.ones_like(values[..., :1])], dim=-1) if self.bias else values

    def _units(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The hidden units and their slopes."""
        z = self._constant(x) @ self.incoming
        match self.activation:
            case "tanh":
                phi = torch.tanh(z)
                return phi, 1 - phi**2
            case "sigmoid":
                phi = torch.sigmoid(z)
                return phi, phi * (1 - phi)
            case _:
                return z.clamp(min=0), (z > 0).to(z)

    def _outputs(self, features: Tensor) -> Tensor:
        return features @ self.outgoing

    @torch.no_grad()
    def _learn(self, x: Tensor, phi: Tensor, slope: Tensor, delta: Tensor) -> None:
        """One step of the rule; all are of one example, without a batch."""
        x, features = self._constant(x), self._constant(phi)
        weights = self.outgoing[: self.hidden]
        direct = self.eta * (weights @ delta)
        keep = 1 - self.step_size * (1 - self.eta) * phi**2
        if self.rule == "approx":
            direct = direct + (1 - self.eta) * phi * (self.memory @ delta)
            direction = torch.outer(x, direct * slope)
            new = self.step_size * (delta - self.eta * weights * phi[:, None])
            self.memory.mul_(keep[:, None]).add_(new)
        else:
            error, projected = delta.expand_as(weights), weights
            if self.signs is not None:
                error, projected = (self.signs @ delta).T, (self.signs * weights).sum(dim=-1).T
            mix = (1 - self.eta) / (1 if self.signs is None else len(self.signs))
            direction = (self.memory * (mix * phi[:, None] * error)).sum(dim=-1) + torch.outer(x, direct * slope)
            new = self.step_size * (error - self.eta * projected * phi[:, None]) * slope[:, None]
            self.memory.mul_(keep[:, None]).add_(x[:, None, None] * new)
        # Not by autograd's in-place rules: the graph of this example has been used.
        self.outgoing.data.add_(torch.outer(features, delta), alpha=self.step_size)
        self.incoming.data.add_(direction, alpha=self.incoming_step_size)


class _Learn(torch.autograd.Function):
    """The outputs; on the way back, the module learns, and the error goes down as backprop's."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, incoming: Tensor, outgoing: Tensor, module: Crossprop) -> Tensor:
        phi, slope = module._units(x)
        ctx.save_for_backward(x, phi, slope)
        ctx.module, ctx.learned = module, False
        return module._outputs(module._constant(phi))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        module: Crossprop = ctx.module
        if torch.is_grad_enabled():
            raise RuntimeError("crossprop.torch.Crossprop does not support create_graph=True (double backward)")
        if ctx.learned:
            raise RuntimeError(
                "crossprop.torch.Crossprop learns once from a forward pass: run it again, got a second backward pass"
            )
        ctx.learned = True
        x, phi, slope = ctx.saved_tensors
        weights = module.outgoing[: module.hidden]
        delta = -gradients[0]
        down = None
        if ctx.needs_input_grad[0]:
            error = (delta.to(weights.dtype) @ weights.T) * slope.to(weights.dtype)
            down = -error @ module.incoming[: module.inputs].T
            down = down.to(x.dtype)
        module._learn(*(part.reshape(-1).to(module.memory.dtype) for part in (x, phi, slope, delta)))
        return down, None, None, None


def _initial(fan_in: int, size: int, bias: bool) -> Tensor:
    weights = torch.randn(fan_in, size) / math.sqrt(fan_in)
    return torch.cat([weights, torch.zeros(1, size)]) if bias else weights
