"""What foresight adds to a training step in PyTorch: `python benchmarks/torch_overhead.py`.

A conv net and a transformer in batches of 64, with AdamW, on the GPU if there is one and then on the CPU. Prints the
median time of a step without and with foresight, in alternating steps of two copies of a network, and their ratio.
`--sizes small`, or any other of small, medium and large, chooses the networks; `--cpu` leaves the GPU out. Needs
PyTorch alone.
"""

import argparse
import importlib.util
import json
from pathlib import Path
from statistics import median

import torch
import torch.nn.functional as F
from torch import nn
from turns import take_turns

HEADS, SYMBOLS = 8, 128
CONVS = {"small": (16, 32), "medium": (64, 32), "large": (128, 64)}
"""Channels of the first layer and pixels of a side."""
TRANSFORMERS = {"small": (64, 2, 32), "medium": (256, 4, 128), "large": (768, 8, 256)}
"""Width, blocks and characters."""


def foresight():
    """The function itself, without JAX, which the rest of the package needs."""
    file = Path(__file__).parent.parent / "src" / "crossprop" / "torch" / "hooks.py"
    spec = importlib.util.spec_from_file_location("hooks", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.foresight


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first_norm, self.second_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.attended = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        parts = self.qkv(self.first_norm(x)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(*parts.unbind(0), is_causal=True)
        x = x + self.attended(seen.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.second_norm(x))))


def transformer(size):
    width, depth, length = TRANSFORMERS[size]
    layers = [nn.Embedding(SYMBOLS, width), *(Block(width) for _ in range(depth)), nn.LayerNorm(width)]
    pieces = torch.randint(SYMBOLS, (64, length + 1))
    return nn.Sequential(*layers, nn.Linear(width, SYMBOLS)), pieces[:, :-1], pieces[:, 1:].flatten()


def conv(size):
    (width, side), layers, below = CONVS[size], [], 3
    for own, stride in ((width, 1), (width, 1), (2 * width, 2), (2 * width, 1), (4 * width, 2), (4 * width, 1)):
        layers += [nn.Conv2d(below, own, 3, stride, 1, bias=False), nn.BatchNorm2d(own), nn.ReLU(inplace=True)]
        below = own
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(below, 10)]
    return nn.Sequential(*layers, *head), torch.randn(64, 3, side, side), torch.randint(10, (64,))


def step_of(model, x, y):
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)

    def step():
        optimizer.zero_grad()
        F.cross_entropy(model(x).flatten(0, -2), y).backward()
        optimizer.step()
        if x.is_cuda:
            torch.cuda.synchronize()

    return step


def measure(build, size, device, repeats):
    """Median seconds of a step without and with foresight."""
    steps = {}
    for name in ("plain", "foresight"):
        torch.manual_seed(0)
        model, x, y = build(size)
        model, x, y = model.to(device), x.to(device), y.to(device)
        if name == "foresight":
            foresight()(model)
        steps[name] = step_of(model, x, y)
    take_turns(steps, repeats=2)  # warm up
    return {name: median(each) for name, each in take_turns(steps, repeats).items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sizes", nargs="+", choices=list(CONVS), default=["medium", "large"])
    parser.add_argument("--cpu", action="store_true")
    flags = parser.parse_args()
    torch.set_float32_matmul_precision("high")
    has_gpu = torch.cuda.is_available() and not flags.cpu
    found = []
    cases = [("cuda", size) for size in flags.sizes if has_gpu]
    cases += [("cpu", size) for size in flags.sizes if size != "large" or flags.sizes == ["large"]]
    print("| device | network | ms per step | with foresight | ratio |\n|---|---|---|---|---|")
    for device, size in cases:
        for build in (conv, transformer):
            times = measure(build, size, device, 100 if device == "cuda" else 15)
            ratio = times["foresight"] / times["plain"]
            found.append({"device": device, "network": f"{size} {build.__name__}", **times, "ratio": ratio})
            plain, ahead = (1e3 * times[name] for name in ("plain", "foresight"))
            print(f"| {device} | {size} {build.__name__} | {plain:.2f} | {ahead:.2f} | {ratio:.3f} |", flush=True)
    print(json.dumps({"torch": torch.__version__, "threads": torch.get_num_threads(), "found": found}))


if __name__ == "__main__":
    main()
