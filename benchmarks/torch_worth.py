"""Is foresight worth it in PyTorch? With and without, paired, tuned alike: `python benchmarks/torch_worth.py`.

A small conv net and a small residual net on CIFAR-10, and a small transformer on characters of the source code of
Python's standard library; in batches of 64 for some epochs, and online, one image or one piece of text at a time, in
one pass; with SGD with momentum 0.9 and with AdamW. Every side has its step size chosen from the same grid of powers of
two, on three seeds: by accuracy or loss on validation data, or before learning from each example where learning is
online. A grid whose best value is at its edge is widened. The sides are then compared on five fresh seeds, which share
weights and order of examples, on test data. Wants a GPU, for about eight minutes, and nothing but PyTorch and NumPy.

    python benchmarks/torch_worth.py --pack              # cifar.npz: 16,000 images of `crossprop data fetch cifar10`
    python benchmarks/torch_worth.py --data cifar.npz --out worth --minutes 8
    python benchmarks/torch_worth.py --quick             # random images on a CPU: does it work?
    python benchmarks/torch_worth.py --check             # are the stacked networks those of crossprop.torch.foresight?

All models of a setting (sides, step sizes and seeds) are one stack, so that a step of all of them is a few large
operations; on a GPU a step is one CUDA graph. Finished settings are kept in the folder, in results.json, and the same
call goes on from them.
"""

import argparse
import json
import math
import sysconfig
import time
import traceback
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch_overhead import foresight
from torch_stacks import CONTEXT, NETS, SYMBOLS, Transformer, initial

SIDES = {"backprop": (0.0, 1000.0), "foresight": (1.0, 1000.0), "foresight, horizon 100": (1.0, 100.0)}
SIDES |= {"foresight, ahead 4, horizon 100": (4.0, 100.0)}
"""`ahead` and `horizon`; the first is what the others are compared with."""
TUNING, FRESH = (0, 1, 2), (100, 101, 102, 103, 104)
POWERS = 9
GRIDS = {("sgd", 64): -9, ("sgd", 1): -14, ("adamw", 64): -14, ("adamw", 1): -18}
"""The smallest power of two of each grid of step sizes."""
MOMENTUM, BETAS, EPSILON, DECAY = 0.9, (0.9, 0.999), 1e-8, 0.01


# The data.


class Images:
    """CIFAR-10, or random images; the last 3,000 are for validation and test."""

    def __init__(self, path, device, quick):
        if path is None:
            random = np.random.default_rng(0)
            labels = random.integers(10, size=400)
            pixels = random.integers(256, size=(400, 3, 32, 32)) // 2 + 12 * labels[:, None, None, None]
        else:
            with np.load(path) as file:
                labels, coded = file["labels"], file["coded"]
            plain = np.cumsum(np.cumsum(coded, axis=2, dtype=np.uint8), axis=3, dtype=np.uint8)
            green, red, blue = plain
            pixels = np.stack([red + green, green, blue + green], axis=1)
        held = 100 if path is None or quick else 1500
        self.x = torch.tensor(pixels, dtype=torch.float32).sub_(120).div_(64).to(device)
        self.y = torch.tensor(labels, dtype=torch.long, device=device)
        self.train = len(labels) - 2 * held
        self.parts = {"validation": (self.train, self.train + held), "test": (self.train + held, len(labels))}

    def batch(self, rows):
        """`rows (models, batch)`."""
        return self.x[rows].transpose(1, 2), self.y[rows]

    def held_out(self, part, size=50):
        first, end = self.parts[part]
        return [torch.arange(at, min(at + size, end)) for at in range(first, end, size)]


class Text:
    """The modules of Python's standard library, one after the other; the last tenth is for validation and test."""

    def __init__(self, path, device, quick):
        files = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
        text = "".join(file.read_text(errors="replace") for file in files)[: 50_000 if quick else 3_000_000]
        codes = np.minimum(np.frombuffer(text.encode("utf-32-le"), np.uint32), SYMBOLS - 1).astype(np.int64)
        self.text = torch.tensor(codes, device=device)
        self.train = int(0.9 * len(codes)) - CONTEXT
        held = (len(codes) - self.train - 2 * CONTEXT) // 2
        self.parts = {"validation": (self.train + CONTEXT, held), "test": (self.train + CONTEXT + held, held)}
        self.steps = torch.arange(CONTEXT + 1, device=device)

    def batch(self, starts):
        pieces = self.text[starts[..., None] + self.steps]
        return pieces[..., :-1], pieces[..., 1:].flatten(1)

    def held_out(self, part, size=16):
        first, length = self.parts[part]
        starts = torch.arange(first, first + length - CONTEXT - 1, CONTEXT)[:512]
        return list(starts.split(size))


# Training.


class Stack:
    """Models that are trained side by side; each has its side, step size and seed."""

    def __init__(self, net, data, models, optimizer, batch, steps, device, dtype=torch.float32):
        self.net, self.data, self.optimizer, self.batch, self.steps = net, data, optimizer, batch, steps
        seeds = sorted({seed for *_, seed in models})
        column = lambda values: torch.tensor(list(values), dtype=dtype, device=device)[:, None]
        self.ahead = column(SIDES[side][0] for side, *_ in models)
        self.keep = column(1 - 1 / SIDES[side][1] for side, *_ in models)
        self.step_size = column(step_size for _, step_size, _ in models)
        self.seed = torch.tensor([seeds.index(seed) for *_, seed in models], device=device)
        self.flat = torch.stack([initial(net, seed) for seed in seeds]).to(device, dtype)[self.seed].contiguous()
        self.moves, self.first, self.second = (torch.zeros_like(self.flat) for _ in range(3))
        self.order = torch.stack([self._order(seed) for seed in seeds]).to(device)
        self.at = torch.zeros(1, dtype=torch.long, device=device)
        self.losses, self.right = (torch.zeros(steps, len(models), dtype=dtype, device=device) for _ in range(2))

    def _order(self, seed):
        random, count = np.random.default_rng(seed), self.data.train
        passes = math.ceil(self.steps * self.batch / count)
        order = np.concatenate([random.permutation(count) for _ in range(passes)])[: self.steps * self.batch]
        return torch.tensor(order.reshape(self.steps, self.batch))

    def views(self, flat):
        found, at = {}, 0
        for name, shape in self.net.shapes.items():
            size = math.prod(shape)
            found[name] = flat[:, at : at + size].unflatten(1, shape)
            at += size
        return found

    def step(self):
        rows = self.order.index_select(1, self.at)[self.seed, 0]
        x, y = self.data.batch(rows)
        weights = {name: part.detach().requires_grad_() for name, part in self.views(self.flat).items()}
        to_come = self.views(torch.addcmul(self.flat, self.ahead, self.moves))
        outputs = self.net.outputs(weights, to_come, x.to(self.flat.dtype) if x.is_floating_point() else x)
        loss = F.cross_entropy(outputs.transpose(1, 2), y, reduction="none").mean(dim=1)
        gradients = torch.autograd.grad(loss.sum(), [*weights.values()])
        with torch.no_grad():
            move = self._move(torch.cat([each.flatten(1) for each in gradients], dim=1))
            self.moves.mul_(self.keep).add_(move)
            self.flat.add_(move)
            right = (outputs.argmax(dim=2) == y).to(loss.dtype).mean(dim=1)
            self.losses.index_copy_(0, self.at, loss.detach()[None])
            self.right.index_copy_(0, self.at, right[None])
            self.at.add_(1)

    def _move(self, gradient):
        if self.optimizer == "sgd":
            self.first.mul_(MOMENTUM).add_(gradient)
            return -self.step_size * self.first
        self.first.lerp_(gradient, 1 - BETAS[0])
        self.second.mul_(BETAS[1]).addcmul_(gradient, gradient, value=1 - BETAS[1])
        count = self.at.to(self.flat.dtype) + 1
        size = (self.second / (1 - BETAS[1] ** count)).sqrt_().add_(EPSILON)
        return -self.step_size * (DECAY * self.flat + self.first / (1 - BETAS[0] ** count) / size)

    def train(self, deadline):
        """All steps; on a GPU as replays of one graph. False if the time did not suffice."""
        if self.flat.device.type != "cuda":
            for _ in range(self.steps):
                self.step()
            return True
        state = (self.flat, self.moves, self.first, self.second, self.at)
        before = [part.clone() for part in state]
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.step()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.step()
        for part, value in zip(state, before, strict=True):
            part.copy_(value)
        for at in range(self.steps):
            graph.replay()
            if at % 50 == 49:
                torch.cuda.synchronize()
                if time.perf_counter() > deadline:
                    return False
        torch.cuda.synchronize()
        return True

    @torch.no_grad()
    def held_out(self, part):
        """Loss and accuracy of every model."""
        weights, sums, count = self.views(self.flat), 0.0, 0
        for rows in self.data.held_out(part):
            x, y = self.data.batch(rows.to(self.at.device)[None].expand(len(self.flat), -1))
            outputs = self.net.outputs(weights, weights, x)
            losses = F.cross_entropy(outputs.transpose(1, 2), y, reduction="none").mean(dim=1)
            right = (outputs.argmax(dim=2) == y).to(losses.dtype).mean(dim=1)
            sums, count = sums + len(rows) * torch.stack([losses, right]), count + len(rows)
        return (sums / count).cpu().numpy()

    def results(self):
        """By name, one number per model."""
        found = {}
        for part in ("validation", "test"):
            found[f"{part}_loss"], found[f"{part}_accuracy"] = self.held_out(part)
        found["online_loss"], found["online_accuracy"] = (
            each.mean(dim=0).cpu().numpy() for each in (self.losses, self.right)
        )
        sizes = torch.linalg.vector_norm(self.ahead * self.moves, dim=1) / torch.linalg.vector_norm(self.flat, dim=1)
        return found | {"look_ahead_by_weights": sizes.cpu().numpy()}


# A setting: tuned, then judged on fresh seeds.


def quality(net, batch):
    """What a step size is chosen by, and how good it is."""
    name = ("online" if batch == 1 else "validation") + ("_loss" if net == "transformer" else "_accuracy")
    return name, (lambda value: -value) if name.endswith("loss") else (lambda value: value)


def trained(net, data, models, optimizer, batch, plan):
    stack = Stack(NETS[net], data, models, optimizer, batch, plan["steps"], plan["device"])
    if not stack.train(plan["deadline"]):
        return None
    found = stack.results()
    del stack
    torch.cuda.empty_cache()  # nothing where there is no GPU
    return [
        {"side": side, "step_size": step_size, "seed": seed}
        | {name: float(values[at]) for name, values in found.items()}
        for at, (side, step_size, seed) in enumerate(models)
    ]


def best_powers(rows, net, batch):
    """The best power of two of each side, by the mean over seeds."""
    name, better = quality(net, batch)
    scores = {}
    for row in rows:
        scores.setdefault((row["side"], round(math.log2(row["step_size"]))), []).append(better(row[name]))
    mean = lambda values: np.mean(values) if np.isfinite(values).all() else -np.inf
    return {
        side: max((power for own, power in scores if own == side), key=lambda power: mean(scores[side, power]))
        for side in SIDES
    }


def measure(net, data, optimizer, batch, plan):
    """The rows of tuning and of judging, or None if the time did not suffice."""
    if time.perf_counter() > plan["deadline"]:
        return None
    low = GRIDS[optimizer, batch]
    grid = [*range(low, low + plan["powers"])]
    tuning = plan["tuning"]
    rows = trained(
        net, data, [(s, 2.0**p, seed) for s in SIDES for p in grid for seed in tuning], optimizer, batch, plan
    )
    for _ in range(plan["widenings"]):
        if rows is None:
            return None
        best = {*best_powers(rows, net, batch).values()}
        more = [grid[0] - 2, grid[0] - 1] * (grid[0] in best) + [grid[-1] + 1, grid[-1] + 2] * (grid[-1] in best)
        if not more:
            break
        further = trained(
            net, data, [(s, 2.0**p, seed) for s in SIDES for p in more for seed in tuning], optimizer, batch, plan
        )
        rows = None if further is None else rows + further
        grid = sorted([*grid, *more])
    if rows is None:
        return None
    powers = best_powers(rows, net, batch)
    judged = trained(
        net, data, [(s, 2.0 ** powers[s], seed) for s in SIDES for seed in plan["fresh"]], optimizer, batch, plan
    )
    return None if judged is None else {"grid": grid, "tuning": rows, "judged": judged}


def table(results):
    """Markdown: each side beside backprop, on fresh seeds, with the 95% interval of the paired difference."""
    lines = ["| network | batch | optimizer | side | step size | measure | value | beside backprop | a v / W |"]
    lines.append("|---|---|---|---|---|---|---|---|---|")
    for name, found in results.items():
        net, batch, optimizer = name.split("-")
        kind = "loss" if net == "transformer" else "accuracy"
        of = lambda side, measure, rows=found["judged"]: np.array([row[measure] for row in rows if row["side"] == side])
        for measure in (f"online_{kind}", f"test_{kind}")[int(batch != "1") :]:
            for side in SIDES:
                step_size = next(row["step_size"] for row in found["judged"] if row["side"] == side)
                power = round(math.log2(step_size))
                edge = " (edge)" if power in (found["grid"][0], found["grid"][-1]) else ""
                own, first = of(side, measure), of("backprop", measure)
                gain = own - first
                half = 2.776 * gain.std(ddof=1) / math.sqrt(len(gain)) if len(gain) == 5 else float("nan")
                beside = "" if side == "backprop" else f"{gain.mean():+.4f} ± {half:.4f}"
                size = f"{of(side, 'look_ahead_by_weights').mean():.3f}"
                cells = [net, batch, optimizer, side, f"2^{power}{edge}", measure.replace("_", " ")]
                lines.append(f"| {' | '.join([*cells, f'{own.mean():.4f}', beside, size])} |")
    return "\n".join(lines)


# Are these networks those of crossprop.torch.foresight?


def check(steps=12):
    """The largest difference, by network and optimizer, between losses of a stack and of plain PyTorch networks."""
    found, side = {}, "foresight, ahead 4, horizon 100"
    for name, net in NETS.items():
        data = (Text if net is Transformer else Images)(None, "cpu", quick=True)
        for optimizer in ("sgd", "adamw"):
            models = [("backprop", 0.01, 1), (side, 0.01, 1), (side, 0.02, 2)]
            stack = Stack(net, data, models, optimizer, 4, steps, "cpu", torch.double)
            references = [_reference(net, stack, at, models[at], foresight()) for at in range(3)]
            stack.train(math.inf)
            theirs = torch.tensor([run() for run in references], dtype=torch.double).T
            found[name, optimizer] = float((stack.losses - theirs).abs().max())
            assert (theirs[:, 0] - theirs[:, 1]).abs().max() > 1e-7, "foresight made no difference"
    return found


def _reference(net, stack, at, model, foresight):
    """A plain network with the weights of a model of the stack, and a function that trains it."""
    side, step_size, _ = model
    reference = net.reference().double()
    for parameter, part in zip(reference.parameters(), stack.views(stack.flat).values(), strict=True):
        parameter.data.copy_(part[at].reshape(parameter.shape))
    rows = stack.order[stack.seed[at]]
    if stack.optimizer == "sgd":
        optimizer = torch.optim.SGD(reference.parameters(), step_size, momentum=MOMENTUM)
    else:
        optimizer = torch.optim.AdamW(reference.parameters(), step_size, BETAS, EPSILON, DECAY)

    def run():
        handle, losses = foresight(reference, *SIDES[side]), []
        for own in rows:
            x, y = stack.data.batch(own[None])
            x = x[0].transpose(0, 1).double() if x.is_floating_point() else x[0]
            optimizer.zero_grad()
            loss = F.cross_entropy(reference(x), y[0])
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        handle.remove()
        return losses

    return run


def pack(train=13_000, held=3_000):
    """Some images of CIFAR-10 in few bytes, as differences of colours and of neighbours."""
    import crossprop as cp

    parts = [(cp.datasets.cifar10("train"), train), (cp.datasets.cifar10("test"), held)]
    x = np.concatenate([np.rint(255 * part.x[:count]).astype(np.uint8) for part, count in parts])
    red, green, blue = np.moveaxis(x.reshape(-1, 3, 32, 32), 1, 0)
    coded = np.stack([green, red - green, blue - green])
    for axis in (3, 2):
        coded = np.diff(coded, axis=axis, prepend=np.uint8(0))
    labels = np.concatenate([part.y[:count] for part, count in parts]).astype(np.uint8)
    np.savez_compressed("cifar.npz", coded=coded, labels=labels)


SETTINGS = [f"{net}-{batch}-{optimizer}" for batch in (64, 1) for optimizer in ("sgd", "adamw") for net in NETS]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", help="cifar.npz, as --pack wrote it")
    parser.add_argument("--out", default="worth")
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--pack", action="store_true")
    parser.add_argument("--settings", nargs="+", choices=SETTINGS, help="in the order given; unset, all")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--check", action="store_true")
    flags = parser.parse_args()
    if flags.pack:
        pack()
    elif flags.check:
        torch.set_num_threads(1)
        print(check())
    else:
        compare(flags)


def compare(flags):
    began, folder = time.perf_counter(), Path(flags.out)
    folder.mkdir(parents=True, exist_ok=True)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if flags.quick:
        torch.set_num_threads(1)
    torch.set_float32_matmul_precision("high")
    images, text = Images(flags.data, device, flags.quick), Text(None, device, flags.quick)
    print(
        f"{device}, torch {torch.__version__}, {images.train} images, {text.train} characters to learn from", flush=True
    )
    file = folder / "results.json"
    results = json.loads(file.read_text()) if file.exists() else {}
    epochs = {"conv": 6, "residual": 5}
    for name in flags.settings or SETTINGS:
        net, batch, optimizer = name.split("-")
        batch, started = int(batch), time.perf_counter()
        data = text if net == "transformer" else images
        steps = images.train if batch == 1 else epochs.get(net, 0) * images.train // 64
        steps = {1: 10_000, 64: 1_500}[batch] if net == "transformer" else steps
        plan = {"device": device, "deadline": began + 60 * flags.minutes, "steps": steps, "widenings": 2}
        plan |= {"powers": POWERS, "tuning": TUNING, "fresh": FRESH}
        if flags.quick:
            plan |= {"steps": 2, "powers": 2, "tuning": (0,), "fresh": (100, 101), "widenings": 0}
        try:
            found = results.get(name) or measure(net, data, optimizer, batch, plan)
        except Exception:  # the other settings may go well
            traceback.print_exc()
            found = None
        if found is not None:
            results[name] = found
            file.write_text(json.dumps(results))
            (folder / "table.md").write_text(table(results) + "\n")
        print(f"{name}: {'done' if found else 'not done'}, {time.perf_counter() - started:.1f} s", flush=True)
    print(table(results))


if __name__ == "__main__":
    main()
