"""What our GPU programs are made of, lowered by Mosaic GPU, Pallas's other backend for NVIDIA's GPUs.

python benchmarks/mosaic.py

Needs no GPU. For each operation it prints that it lowers, or the error.
"""

import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu
from jax.sharding import AbstractDevice, AbstractMesh, use_abstract_mesh

H200 = AbstractMesh((), (), abstract_device=AbstractDevice("NVIDIA H200", 132, "gpu"))
Shape = tuple[int, ...]
OPERATIONS: dict[str, tuple[Callable[..., jax.Array], list[Shape], Shape]] = {
    "tanh of 512 hidden units": (jnp.tanh, [(512,)], (512,)),
    "their sum": (lambda h: jnp.sum(h, keepdims=True), [(512,)], (1,)),
    "16 inputs": (lambda x: 2 * x, [(16,)], (16,)),
    "weights 16 x 512": (lambda w: 2 * w, [(16, 512)], (16, 512)),
    "the same, summed over inputs": (lambda w: jnp.sum(w, axis=0), [(16, 512)], (512,)),
    "the same, summed over units": (lambda w: jnp.sum(w, axis=1), [(16, 512)], (16,)),
    "128 x 512 by 512, summed over units": (lambda w, h: jnp.sum(w * h[None, :], axis=1), [(128, 512), (512,)], (128,)),
}


def program_of(function: Callable[..., jax.Array], count: int, out: Shape) -> Callable[..., Any]:
    def program(*refs: Any) -> None:
        refs[-1][...] = function(*(ref[...] for ref in refs[:-1]))

    in_memory = pl.BlockSpec(memory_space=mosaic_gpu.GMEM)
    return pl.pallas_call(
        program,
        out_shape=jax.ShapeDtypeStruct(out, jnp.float32),
        in_specs=[in_memory] * count,
        out_specs=in_memory,
        compiler_params=mosaic_gpu.CompilerParams(),
    )


def main() -> None:
    warnings.simplefilter("ignore")
    print("JAX", jax.__version__)
    for name, (function, shapes, out) in OPERATIONS.items():
        given = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
        try:
            with use_abstract_mesh(H200):
                jax.jit(program_of(function, len(shapes), out)).trace(*given).lower(lowering_platforms=("cuda",))
            found = "lowers"
        except Exception as error:
            found = f"{type(error).__name__}: {error}"
        print(f"  {name:36} {found}")


if __name__ == "__main__":
    main()
