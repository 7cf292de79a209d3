r"""Foresight for PyTorch: one line on a network of yours, with its own optimizer.

The backward pass goes down through $W + a v$ instead of $W$, where $v$ is a fading sum of the steps that the optimizer
took in $W$; the gradients of the weights themselves are computed as usual, from the error that arrives. See
`crossprop.Foresight` for the rule.
"""

import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from crossprop._support import checks as check

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
SETTINGS: dict[str, dict[str, Any]] = {"ahead": {}, "horizon": {"low": 1}}
"""Settings with their limits."""
WEIGHTLESS = "it has no weights of its own that an error passes through"


def foresight(
    model: nn.Module, ahead: float = 1.0, horizon: float = 1000.0, layers: Iterable[str] | None = None
) -> "Foresight":
    """Passes the errors of a network down through `W + ahead * v`, from the next forward pass on.

    **Arguments:**

    - `model`: any `nn.Module`. Its linear and convolutional layers take part, transposed and grouped ones too; the rest
      is left alone.
    - `ahead`: how far to look ahead, in sums of past steps; 0 is backprop.
    - `horizon`: over how many steps of the optimizer past steps fade, at least 1.
    - `layers`: names of layers as `model.named_modules()` gives them; None is all that can take part.

    Steps are those of any `torch.optim.Optimizer`, observed through PyTorch's own hooks; weights that are changed in
    another way are not followed.

    **Returns:** a `Foresight`, with `layers`, `skipped`, `remove()`, `state_dict()` and `load_state_dict()`.

    ```python
    model = nn.Sequential(nn.Linear(784, 256), nn.Tanh(), nn.Linear(256, 10))
    handle = foresight(model, ahead=1.0, horizon=1000)
    ```
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, got {model!r}")
    found: dict[str, str | None] = {}
    for name, module in model.named_modules():
        if any(isinstance(hook, _Layer) for hook in module._forward_hooks.values()):
            raise ValueError(
                f"model already has foresight, in {name or 'itself'!r}: remove it first, by handle.remove()"
            )
        found[name] = _why_not(name, module, model)
    can = [name for name, why in found.items() if why is None]
    chosen = can if layers is None else [*layers]
    for name in chosen:
        if name not in found:
            raise ValueError(f"layers must be names of layers of the model, such as {can[:3]}, got {name!r}")
        if found[name] is not None:
            raise ValueError(f"layers: {name!r} cannot take part: {found[name]}")
    if not can:
        raise ValueError("model must have a linear or convolutional layer that can take part, got none")
    if not chosen:
        raise ValueError(f"layers must name a layer, such as {can[:3]}, got none; None is all that can take part")
    skipped = {name: why for name, why in found.items() if why is not None and why != WEIGHTLESS}
    skipped |= {name: "it is not among the layers that were asked for" for name in can if name not in chosen}
    return Foresight(model, chosen, skipped, ahead, horizon)


class Foresight:
    """Foresight on a network; made by `foresight`.

    - `layers`: the names of the layers that take part. A layer whose input needs no gradient, such as the first, has no
      error to pass down, and nothing happens there.
    - `skipped`: by name, why a layer with weights is left alone.
    - `ahead`, `horizon`: may be changed at any time; `ahead` not after `torch.compile` has compiled the network.
    """

    def __init__(
        self, model: nn.Module, layers: list[str], skipped: Mapping[str, str], ahead: Any, horizon: Any
    ) -> None:
        self.layers, self.skipped = tuple(layers), dict(skipped)
        self.ahead, self.horizon = ahead, horizon
        self._weights: dict[str, nn.Parameter] = {}
        self._moves: dict[nn.Parameter, Tensor] = {}
        self._before: dict[nn.Parameter, Tensor] = {}
        """Weights before a step, while an optimizer takes it."""
        modules = dict(model.named_modules())
        self._removals: list[Callable[[], None]] = []
        for name in layers:
            module = modules[name]
            weight: Any = module.weight
            self._weights[name] = weight
            self._moves.setdefault(weight, torch.zeros_like(weight, requires_grad=False))
            layer = _Layer(self, module)
            self._removals.append(module.register_forward_pre_hook(layer.before).remove)
            self._removals.append(module.register_forward_hook(layer).remove)
        _listen(self)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in SETTINGS:
            value = float(check.scalar(name, value, **SETTINGS[name]))
        super().__setattr__(name, value)

    def __repr__(self) -> str:
        of = f"{len(self.layers)} layer{'s' * (len(self.layers) != 1)}"
        skipped = f", {len(self.skipped)} skipped" if self.skipped else ""
        removed = "" if self._removals else ", removed"
        return f"<Foresight of {of}{skipped}: ahead={self.ahead:g}, horizon={self.horizon:g}{removed}>"

    def remove(self) -> None:
        """Removes it from the network, from the next forward pass on."""
        for remove in self._removals:
            remove()
        self._removals.clear()
        _LIVE.discard(self)

    def state_dict(self) -> dict[str, Any]:
        """The fading sums of steps by layer, and the settings."""
        moves = {name: self._moves_of(weight).clone() for name, weight in self._weights.items()}
        return {"ahead": self.ahead, "horizon": self.horizon, "moves": moves}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned for a network of the same layers."""
        for key in ("ahead", "horizon", "moves"):
            if not isinstance(state, Mapping) or key not in state:
                found = [*state][:3] if isinstance(state, Mapping) else state
                raise ValueError(f"state must be what state_dict() of a foresight gave, with {key!r}, got {found}")
        moves = state["moves"]
        if moves.keys() != self._weights.keys():
            raise ValueError(f"state must have the layers {[*self._weights]}, got {[*moves]}")
        for name, weight in self._weights.items():
            if moves[name].shape != weight.shape:
                raise ValueError(f"state: {name!r} must have shape {(*weight.shape,)}, got {(*moves[name].shape,)}")
        self.ahead, self.horizon = state["ahead"], state["horizon"]
        for name, weight in self._weights.items():
            self._moves_of(weight).copy_(moves[name])

    def weights_to_come(self, weight: Tensor) -> Tensor:
        """The weights that errors are passed down through."""
        return torch.add(weight, self._moves_of(weight), alpha=self.ahead) if self.ahead else weight

    def _moves_of(self, weight: Any) -> Tensor:
        moves = self._moves[weight]
        if moves.device != weight.device or moves.dtype != weight.dtype:  # the network was moved
            moves = self._moves[weight] = moves.to(weight)
        return moves

    def _followed(self, optimizer: Optimizer) -> list[Any]:
        weights = (weight for group in optimizer.param_groups for weight in group["params"])
        return [weight for weight in weights if weight in self._moves]

    @torch.no_grad()
    def _before_step(self, optimizer: Optimizer) -> None:
        if weights := self._followed(optimizer):
            self._before |= zip(weights, torch._foreach_mul(weights, 1), strict=True)

    @torch.no_grad()
    def _after_step(self, optimizer: Optimizer) -> None:
        weights = [weight for weight in self._followed(optimizer) if weight in self._before]
        if weights:
            steps = torch._foreach_sub(weights, [*map(self._before.pop, weights)])
            moves = [*map(self._moves_of, weights)]
            torch._foreach_mul_(moves, 1 - 1 / self.horizon)
            torch._foreach_add_(moves, steps)

    def __getstate__(self) -> dict[str, Any]:
        """Part of the network when it is copied or pickled: the hooks of the copy use the copy."""
        return self.__dict__ | {"_moves": [*self._moves.items()]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state | {"_moves": dict(state["_moves"])})
        _listen(self)


class _Layer:
    """The hooks of one layer. The layer runs on a detached input, so that autograd computes the gradients of its
    weights as usual; `_PassDown` passes the error on to the input."""

    def __init__(self, foresight: Foresight, module: nn.Module) -> None:
        self.foresight, self.module = foresight, module

    @property
    def __name__(self) -> str:
        """The first thing that `torch.jit.script` reads of a hook."""
        raise AttributeError(
            "crossprop.torch.foresight cannot be compiled by torch.jit.script, and its hooks have no __name__: remove "
            "it first, by handle.remove()"
        )

    def before(self, module: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """The hook before the layer."""
        if "_is_replica" in module.__dict__:
            raise RuntimeError("crossprop.torch.foresight cannot work in DataParallel: use DistributedDataParallel")
        if not (inputs and torch.is_grad_enabled() and inputs[0].requires_grad):
            return None
        is_exporting = getattr(torch.compiler, "is_exporting", bool)  # torch 2.4 has none
        if torch.jit.is_tracing() or is_exporting():  # tracing would crash the process
            raise RuntimeError(
                "crossprop.torch.foresight cannot be traced by torch.jit.trace or torch.export: remove it first, by "
                "handle.remove(), or trace under torch.no_grad()"
            )
        detached: Any = inputs[0].detach()
        detached.crossprop_input = inputs[0]
        return (detached, *inputs[1:])

    def __call__(self, module: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> Tensor | None:
        """The hook after the layer."""
        if not (inputs and hasattr(inputs[0], "crossprop_input")):
            return None
        return _PassDown.apply(inputs[0].crossprop_input, output, module.weight, self)

    def input_gradient(self, error: Tensor, weight: Tensor, shape: torch.Size) -> Tensor:
        """The gradient of the layer's input from the `error` at its output, through these weights."""
        module: Any = self.module
        if isinstance(module, nn.Linear):
            return (error.reshape(-1, error.shape[-1]) @ weight).reshape(shape)
        batch = error if len(shape) == weight.dim() else error.unsqueeze(0)
        like = error.new_empty(1).expand(shape if len(shape) == weight.dim() else (1, *shape))
        found = torch.ops.aten.convolution_backward(
            batch,
            like,
            weight,
            None,
            list(module.stride),
            _padding(module),
            list(module.dilation),
            module.transposed,
            list(module.output_padding),
            module.groups,
            [True, False, False],
        )[0]
        return found.reshape(shape)


class _PassDown(torch.autograd.Function):
    """The layer's output as it is; on the way back, the error goes to the input through extrapolated weights."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, output: Tensor, weight: Tensor, layer: _Layer) -> Tensor:
        ctx.save_for_backward(weight)
        ctx.layer, ctx.shape, ctx.dtype = layer, x.shape, x.dtype
        # The same memory, but not a view to autograd, so that it may be changed in place: no layer saves its output.
        return output.data

    @staticmethod
    def backward(ctx: Any, *errors: Tensor) -> Any:
        (error,), _ = errors, ctx.saved_tensors  # raises if the weights were modified; they may be a copy
        weight = ctx.layer.module.weight
        if torch.is_grad_enabled():
            raise RuntimeError(
                "crossprop.torch.foresight does not support create_graph=True (double backward), nor torch.func: "
                "its backward pass is not the derivative of its forward pass; remove it first, by handle.remove()"
            )
        through = ctx.layer.foresight.weights_to_come(weight).to(error.dtype)
        return ctx.layer.input_gradient(error, through, ctx.shape).to(ctx.dtype), error, None, None


def _why_not(name: str, module: nn.Module, model: nn.Module) -> str | None:
    """Why a layer cannot take part, or None."""
    known = (nn.Linear, *CONVOLUTIONS)
    if not isinstance(module, known):
        has_weights = any(parameter.dim() > 1 for parameter in module.parameters(recurse=False))
        return f"{type(module).__name__} is not a layer that foresight knows" if has_weights else WEIGHTLESS
    if type(module).forward not in {kind.forward for kind in known}:
        return f"{type(module).__name__} has a forward pass of its own"
    if "weight" not in module._parameters:
        return "its weight is computed from other parameters"
    if isinstance(module.weight, nn.parameter.UninitializedParameter):
        return "its weight is not initialized yet: run an example through the network first"
    parent = name.rpartition(".")[0]
    if parent != name and isinstance(model.get_submodule(parent), nn.MultiheadAttention):
        return "MultiheadAttention uses its weights without calling it"
    if isinstance(module, CONVOLUTIONS):
        if module.padding_mode != "zeros":
            return f"its padding_mode is {module.padding_mode!r}, and only 'zeros' is known"
        if module.padding == "same" and any(
            d * (k - 1) % 2 for d, k in zip(module.dilation, module.kernel_size, strict=True)
        ):
            return "its padding 'same' is not symmetric"
    return None


def _padding(module: Any) -> list[int]:
    if module.padding == "valid":
        return [0] * len(module.kernel_size)
    if module.padding == "same":
        return [d * (k - 1) // 2 for d, k in zip(module.dilation, module.kernel_size, strict=True)]
    return list(module.padding)


# The steps of optimizers

_LIVE: "weakref.WeakSet[Foresight]" = weakref.WeakSet()
_hooks: list[Any] = []


def _listen(foresight: Foresight) -> None:
    """Registers for every step of every optimizer, from now on."""
    _LIVE.add(foresight)
    if not _hooks:
        _hooks.append(register_optimizer_step_pre_hook(_before_step))
        _hooks.append(register_optimizer_step_post_hook(_after_step))


def _before_step(optimizer: Optimizer, *_: Any) -> None:
    for foresight in list(_LIVE):
        foresight._before_step(optimizer)


def _after_step(optimizer: Optimizer, *_: Any) -> None:
    for foresight in list(_LIVE):
        foresight._after_step(optimizer)
