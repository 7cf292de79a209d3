"""Small networks in stacks, for torch_worth.py: many models side by side, so that a step of all of them is a few large
operations. Every array has an axis of models first.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn

CONTEXT, WIDTH, HEADS, BLOCKS, SYMBOLS = 64, 64, 4, 2, 128


# The layers.


class Through(torch.autograd.Function):
    """A product with weights whose error goes down through others."""

    @staticmethod
    def forward(ctx, weights, to_come, values):
        ctx.save_for_backward(to_come, values)
        return torch.bmm(weights, values)

    @staticmethod
    def backward(ctx, error):
        to_come, values = ctx.saved_tensors
        down = torch.bmm(to_come.transpose(1, 2), error) if ctx.needs_input_grad[2] else None
        return torch.bmm(error, values.transpose(1, 2)), None, down


class Columns(torch.autograd.Function):
    """The patches of images `(models, channels, batch, height, width)` as `(models, channels * k * k, positions)`."""

    @staticmethod
    def forward(ctx, x, size, stride):
        ctx.x, ctx.size, ctx.stride = x.shape, size, stride
        x = F.pad(x, [size // 2] * 4) if size > 1 else x
        patches = x.unfold(3, size, stride).unfold(4, size, stride)
        ctx.places = patches.shape[3:5]
        return patches.permute(0, 1, 5, 6, 2, 3, 4).reshape(x.shape[0], x.shape[1] * size**2, -1)

    @staticmethod
    def backward(ctx, error):
        (models, channels, batch, height, width), size, stride = ctx.x, ctx.size, ctx.stride
        (down, across), border = ctx.places, size // 2
        if batch == 1:
            flat = error.reshape(models * channels, size**2, down * across)
            folded = F.fold(flat, (height, width), size, padding=border, stride=stride)
            return folded.reshape(ctx.x), None, None
        error = error.reshape(models, channels, size, size, batch, down, across)
        folded = error.new_zeros(models, channels, batch, height + 2 * border, width + 2 * border)
        for i in range(size):
            for j in range(size):
                folded[..., i : i + stride * down : stride, j : j + stride * across : stride] += error[:, :, i, j]
        return folded[..., border : border + height, border : border + width], None, None


def convolved(x, weights, to_come, size=3, stride=1):
    height, width = (math.ceil(each / stride) for each in x.shape[3:])
    found = Through.apply(weights, to_come, Columns.apply(x, size, stride))
    return found.reshape(x.shape[0], -1, x.shape[2], height, width)


def group_norm(x, scale, shift, groups=4):
    """Normalises each image within groups of channels."""
    models, channels, batch = x.shape[:3]
    grouped = x.reshape(models, groups, channels // groups, batch, -1)
    variance, mean = torch.var_mean(grouped, dim=(2, 4), keepdim=True, correction=0)
    found = ((grouped - mean) * torch.rsqrt(variance + 1e-5)).reshape(x.shape)
    return found * scale[:, :, None, None, None] + shift[:, :, None, None, None]


def linear(x, weights, to_come):
    """`x (models, rows, features)`."""
    return Through.apply(weights, to_come, x.transpose(1, 2)).transpose(1, 2)


# The networks. `shapes` has the weights in order: `(outputs, fan-in)`, or `(n,)` for scales (1) and shifts (0).


class Conv:
    shapes = {"a": (16, 27), "a0": (16,), "b": (32, 144), "b0": (32,), "c": (64, 288), "c0": (64,)}
    shapes |= {"out": (10, 1024), "out0": (10,)}

    @staticmethod
    def outputs(w, c, x):
        for name, stride in (("a", 1), ("b", 2), ("c", 2)):
            x = torch.relu(convolved(x, w[name], c[name], stride=stride) + w[f"{name}0"][:, :, None, None, None])
        models, channels, batch = x.shape[:3]
        x = x.reshape(models, channels, batch, 4, 2, 4, 2).mean(dim=(4, 6))
        x = x.permute(0, 1, 3, 4, 2).reshape(models, channels * 16, batch)
        return (Through.apply(w["out"], c["out"], x) + w["out0"][:, :, None]).transpose(1, 2)

    @staticmethod
    def reference():
        convolutions = [nn.Conv2d(3, 16, 3, 1, 1), nn.Conv2d(16, 32, 3, 2, 1), nn.Conv2d(32, 64, 3, 2, 1)]
        layers = [each for convolution in convolutions for each in (convolution, nn.ReLU())]
        return nn.Sequential(*layers, nn.AvgPool2d(2), nn.Flatten(), nn.Linear(1024, 10))


class Residual:
    blocks = (("1", 16, 16, 1), ("2", 16, 32, 2), ("3", 32, 64, 2))
    shapes = {"in": (16, 27)}
    for _name, _below, _own, _stride in blocks:
        shapes |= {f"{_name}g": (_below,), f"{_name}h": (_below,), f"{_name}a": (_own, 9 * _below)}
        shapes |= {f"{_name}i": (_own,), f"{_name}j": (_own,), f"{_name}b": (_own, 9 * _own)}
        shapes |= {f"{_name}s": (_own, _below)} if _below != _own else {}
    shapes |= {"g": (64,), "h": (64,), "out": (10, 64), "out0": (10,)}
    ones = {"g", "1g", "2g", "3g", "1i", "2i", "3i"}

    @classmethod
    def outputs(cls, w, c, x):
        x = convolved(x, w["in"], c["in"])
        for name, _, _, stride in cls.blocks:
            part = torch.relu(group_norm(x, w[f"{name}g"], w[f"{name}h"]))
            if f"{name}s" in w:
                x = convolved(part, w[f"{name}s"], c[f"{name}s"], size=1, stride=stride)
            part = convolved(part, w[f"{name}a"], c[f"{name}a"], stride=stride)
            part = torch.relu(group_norm(part, w[f"{name}i"], w[f"{name}j"]))
            x = x + convolved(part, w[f"{name}b"], c[f"{name}b"])
        x = torch.relu(group_norm(x, w["g"], w["h"])).mean(dim=(3, 4))
        return (Through.apply(w["out"], c["out"], x) + w["out0"][:, :, None]).transpose(1, 2)

    @classmethod
    def reference(cls):
        class Block(nn.Module):
            def __init__(self, below, own, stride):
                super().__init__()
                self.first_norm, self.first = nn.GroupNorm(4, below), nn.Conv2d(below, own, 3, stride, 1, bias=False)
                self.second_norm, self.second = nn.GroupNorm(4, own), nn.Conv2d(own, own, 3, 1, 1, bias=False)
                self.short = nn.Conv2d(below, own, 1, stride, bias=False) if below != own else None

            def forward(self, x):
                part = torch.relu(self.first_norm(x))
                x = x if self.short is None else self.short(part)
                return x + self.second(torch.relu(self.second_norm(self.first(part))))

        blocks = [Block(below, own, stride) for _, below, own, stride in cls.blocks]
        ends = [nn.GroupNorm(4, 64), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)]
        return nn.Sequential(nn.Conv2d(3, 16, 3, 1, 1, bias=False), *blocks, *ends)


class Transformer:
    shapes = {"symbols": (SYMBOLS, WIDTH), "places": (CONTEXT, WIDTH)}
    for _block in map(str, range(BLOCKS)):
        shapes |= {f"{_block}g": (WIDTH,), f"{_block}h": (WIDTH,), f"{_block}qkv": (3 * WIDTH, WIDTH)}
        shapes |= {f"{_block}o": (WIDTH, WIDTH), f"{_block}i": (WIDTH,), f"{_block}j": (WIDTH,)}
        shapes |= {f"{_block}up": (4 * WIDTH, WIDTH), f"{_block}down": (WIDTH, 4 * WIDTH)}
    shapes |= {"g": (WIDTH,), "h": (WIDTH,), "out": (SYMBOLS, WIDTH), "out0": (SYMBOLS,)}
    ones = {"g"} | {f"{_block}{_norm}" for _block in map(str, range(BLOCKS)) for _norm in "gi"}

    @staticmethod
    def outputs(w, c, x):
        models, batch, length = x.shape
        norm = lambda x, g, h: F.layer_norm(x, (WIDTH,)) * w[g][:, None] + w[h][:, None]
        symbols = (x.reshape(models, -1, 1) == torch.arange(SYMBOLS, device=x.device)).to(w["symbols"].dtype)
        x = torch.bmm(symbols, w["symbols"]).reshape(models, batch, length, WIDTH)
        x = (x + w["places"][:, None, :length]).reshape(models, -1, WIDTH)
        for block in map(str, range(BLOCKS)):
            parts = linear(norm(x, f"{block}g", f"{block}h"), w[f"{block}qkv"], c[f"{block}qkv"])
            parts = parts.reshape(models * batch, length, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
            seen = F.scaled_dot_product_attention(*parts.unbind(0), is_causal=True)
            seen = seen.transpose(1, 2).reshape(models, -1, WIDTH)
            x = x + linear(seen, w[f"{block}o"], c[f"{block}o"])
            part = torch.relu(linear(norm(x, f"{block}i", f"{block}j"), w[f"{block}up"], c[f"{block}up"]))
            x = x + linear(part, w[f"{block}down"], c[f"{block}down"])
        return linear(norm(x, "g", "h"), w["out"], c["out"]) + w["out0"][:, None]

    @staticmethod
    def reference():
        class Block(nn.Module):
            def __init__(self):
                super().__init__()
                self.first_norm, self.qkv = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH, bias=False)
                self.attended, self.second_norm = nn.Linear(WIDTH, WIDTH, bias=False), nn.LayerNorm(WIDTH)
                self.up = nn.Linear(WIDTH, 4 * WIDTH, bias=False)
                self.down = nn.Linear(4 * WIDTH, WIDTH, bias=False)

            def forward(self, x):
                parts = self.qkv(self.first_norm(x)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
                seen = F.scaled_dot_product_attention(*parts.unbind(0), is_causal=True)
                x = x + self.attended(seen.transpose(1, 2).flatten(2))
                return x + self.down(torch.relu(self.up(self.second_norm(x))))

        class Whole(nn.Module):
            def __init__(self):
                super().__init__()
                self.symbols, self.places = nn.Embedding(SYMBOLS, WIDTH), nn.Embedding(CONTEXT, WIDTH)
                self.blocks = nn.Sequential(*(Block() for _ in range(BLOCKS)))
                self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, SYMBOLS)

            def forward(self, x):
                x = self.symbols(x) + self.places.weight[: x.shape[1]]
                return self.head(self.norm(self.blocks(x))).flatten(0, 1)

        return Whole()


NETS = {"conv": Conv, "residual": Residual, "transformer": Transformer}


def initial(net, seed):
    """The weights of one model in a row: normal, with the gain of relu over the root of the fan-in."""
    random, parts = torch.Generator().manual_seed(seed), []
    for name, shape in net.shapes.items():
        if len(shape) == 1:
            parts.append(torch.full(shape, 1.0 if name in getattr(net, "ones", ()) else 0.0))
        else:
            scale = 0.02 if name in ("symbols", "places") else math.sqrt((1 if name == "out" else 2) / shape[1])
            parts.append((scale * torch.randn(shape, generator=random)).flatten())
    return torch.cat(parts)
