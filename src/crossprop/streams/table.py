"""CSV and Parquet files as streams."""

import csv
import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np

from crossprop._support import checks as check
from crossprop._support.files import cache_folder, release_pages
from crossprop._support.formats import listed, plural
from crossprop.datasets.tables import Moments, standardized
from crossprop.network import float_type
from crossprop.streams import columns
from crossprop.streams.arrays import KINDS, Arrays
from crossprop.streams.columns import Column

PARQUET = ".parquet"
ENDINGS = (".csv", ".tsv", PARQUET)
VALUES_READ = 2**21
"""Values that are read at a time."""
IN_MEMORY = 2**28
"""Bytes of inputs; more are kept in a file that is mapped into memory."""
FEW = 20
"""The most whole numbers that are taken for classes."""
FAR = 10.0
"""Standard deviations that an input is clipped to."""


def is_table(name: Any) -> TypeGuard[str]:
    """Whether a name is the path of a CSV or Parquet file."""
    return isinstance(name, str) and name.lower().endswith(ENDINGS)


def read_table(
    path: str | Path,
    target: str | None = None,
    *,
    time: str | None = None,
    task: str | None = None,
    ignore: str | Iterable[str] = (),
    kind: str | None = None,
    missing: str | None = None,
    standardize: bool = True,
) -> Arrays:
    """The rows of a CSV or Parquet file as a stream.

    Its `about` says what was found. Columns hold numbers, dates (such as 2024-05-31 or 2024-05-31T12:30) or texts. A
    text becomes an input for each of the column's texts, or the column is left out if it has more than 100. A date
    becomes four inputs: days since 1970, hour, weekday and day of the year.

    Numbers are standardised by their mean and standard deviation so far, and clipped to 10 deviations. A target of
    numbers is standardised with its mean before the row, so that 0 is the running mean. Nothing looks ahead.

    Inputs that take more than 256 MiB are written to the folder `tables` of the cache and mapped into memory.

    **Arguments:**

    - `path`: a file that ends in .csv, .tsv or .parquet. The first line of a CSV file names its columns.
    - `target`: the column to predict. Texts, and at most 20 different whole numbers, are classes.
    - `time`: a column to sort the rows by.
    - `task`: a column that names the task of every row. It is no input.
    - `ignore`: columns to leave out.
    - `kind`: `"regression"` or `"classification"`; None goes by the target.
    - `missing`: `"mean"` replaces missing numbers by their mean so far, or 0 where there is none, and gives missing
      texts no input. None makes missing values an error.
    - `standardize`: False leaves numbers as they are.

    ```python
    stream = cp.read_table("table.csv", target="price")
    ```
    """
    path = check.path("path", path, "a CSV or Parquet file")
    if not is_table(path.name):
        raise ValueError(f"path must be a file that ends in {', '.join(ENDINGS)}, got {str(path)!r}")
    for name, value, choices in (("kind", kind, KINDS[:2]), ("missing", missing, ("mean",))):
        if value is not None:
            check.choice(name, value, choices)
    check.flag("standardize", standardize)
    ignored = (ignore,) if isinstance(ignore, str) else tuple(sorted(ignore))
    about = path.stat()
    options = (target, time, task, ignored, kind, missing, standardize)
    return _read(path, about.st_size, about.st_mtime_ns, float_type(), *options)


@lru_cache(1)  # the lab asks again for every setting
def _read(path: Path, size: int, changed: int, dtype: Any, *options: Any) -> Arrays:
    described = f"{path.resolve()} {size} {changed} {dtype} {options}"
    kept = cache_folder() / "tables" / hashlib.sha256(described.encode()).hexdigest()[:32]
    if not kept.exists():
        file = _File(path, *options)
        file.survey()
        if file.rows * file.width * dtype.itemsize <= IN_MEMORY:
            return Arrays(**file.arrays(lambda name, shape, dtype: np.empty(shape, dtype)), **file.described())
        kept.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(dir=kept.parent))
        new = lambda name, shape, dtype: np.lib.format.open_memmap(scratch / f"{name}.npy", "w+", dtype, shape)
        try:
            file.arrays(new)
            (scratch / "raw.npy").unlink()
            (scratch / "table.json").write_text(json.dumps(file.described()))
            scratch.replace(kept)
        except OSError:
            if not kept.exists():  # another process has not written it meanwhile
                raise
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    mapped = {name: np.load(kept / f"{name}.npy", mmap_mode="r") for name in ("x", "y", "tasks")}
    return Arrays(**mapped, **json.loads((kept / "table.json").read_text()))


@dataclass
class _File:
    """A file and the arguments of `read_table`; after `survey`, what its columns hold."""

    path: Path
    target: Any
    time: str | None
    task: str | None
    ignored: tuple[str, ...]
    kind: str | None
    missing: str | None
    standardize: bool
    rows: int = 0
    columns: dict[str, Column] = field(default_factory=dict)
    times: list[np.ndarray] = field(default_factory=list)

    def survey(self) -> None:
        """Reads all rows once. An error names the column that cannot be used, and says what to do."""
        names = _column_names(self.path)
        if self.target is None:
            raise ValueError(f"target (--target) must be given, one of {', '.join(map(repr, names))}")
        roles = [("target", self.target), ("time", self.time), ("task", self.task)]
        for role, name in roles + [("ignore", each) for each in self.ignored]:
            if name is not None or role == "target":
                check.choice(role, name, names)
        used = [name for name in names if name not in self.ignored or name == self.target]
        self.columns = {name: Column(name, name not in (self.target, self.task)) for name in used}
        for frame in self.chunks():
            for name, values in frame.items():
                self.columns[str(name)].add(values, self.rows)
            self.rows += len(frame)
            if self.time is not None and self.columns[self.time].kind in ("number", "date"):
                self.times.append(self.columns[self.time].numbers(frame[self.time])[:, 0])
        self._check_values(roles)

    def _check_values(self, roles: list[tuple[str, Any]]) -> None:
        if not self.rows:
            raise ValueError(f"{self.path} has no rows")
        for name, column in self.columns.items():
            takes_texts = name == self.task or (name == self.target and self.kind == "classification")
            remedy = f"ignore the column (--set stream.ignore={name})"
            if name == self.target:
                remedy = "drop the row; kind='classification' (--set stream.kind=classification) makes classes of all"
            if column.kind == "mixed" or not takes_texts:
                column.check_numbers(self.path, remedy)
        for role, name in roles:
            if name is None:
                continue
            column = self.columns[name]
            if column.missing:
                raise ValueError(
                    f"{role} must have a value in every row of {self.path}, got {column.missing:,} missing in "
                    f"{name!r}, first in data row {column.first_missing:,}: drop these rows"
                )
            if role == "time" and column.kind == "text":
                raise ValueError(f"time must have numbers, or dates such as 2024-05-31, got texts in {name!r}")
            if len(column.values) > columns.MOST_CLASSES and not (role == "target" and self.is_number):
                raise ValueError(f"{role} must have at most {columns.MOST_CLASSES:,} values, got more in {name!r}")
        lacking = [each for each in self.inputs if each.missing]
        if lacking and self.missing is None:
            where = ", ".join(f"{each.missing:,} in {each.name!r}" for each in lacking[:FEW])
            raise ValueError(
                f"{self.path} must have no missing values, got {where}: missing='mean' (--missing mean) takes the mean "
                "so far, and ignore leaves a column out"
            )
        if not self.width:
            raise ValueError(f"{self.path} must have a column of numbers, dates or texts beside the target")

    @property
    def inputs(self) -> list[Column]:
        """The columns that become inputs."""
        return [each for each in self.columns.values() if each.width]

    @property
    def width(self) -> int:
        """The number of inputs."""
        return sum(each.width for each in self.inputs)

    @property
    def is_number(self) -> bool:
        """Whether the target is a number, and no class."""
        target = self.columns[self.target]
        if target.kind == "date" or (target.kind == "text" and self.kind == "regression"):
            raise ValueError(f"target must hold numbers or classes, got a {target.kind} in {self.target!r}")
        if target.kind == "text" or self.kind is not None:
            return self.kind == "regression"
        return len(target.values) > FEW or not all(float(value).is_integer() for value in target.values)

    def described(self) -> dict[str, Any]:
        """The further arguments of `Arrays`."""
        classes = None if self.is_number else sorted(self.columns[self.target].values)
        return {
            "classes": len(classes) if classes and classes == [*range(len(classes))] else classes,
            "kind": KINDS[classes is not None],
            "standardized": self.is_number and self.standardize,
            "about": self._about(classes),
        }

    def _about(self, classes: list[Any] | None) -> str:
        """What was found, in sentences."""
        kinds = {kind: [each.name for each in self.inputs if each.kind == kind] for kind in ("number", "date", "text")}
        inputs = [f"{plural(len(names), kind)} ({_some(names)})" for kind, names in kinds.items() if names]
        target = "numbers" if classes is None else f"{len(classes)} classes ({_some(classes)})"
        about = f"{self.path.name}: {plural(self.rows, 'row')}. Target {self.target}: {target}. "
        about += f"Inputs: {listed(inputs)}"
        if self.standardize:
            about += ", numbers standardised by their mean and deviation so far"
            about += ", the target too (not with --set stream.standardize=false)" * (classes is None)
        left = [each.name for each in self.columns.values() if each.is_input and not each.width]
        about += "." + f" Left out: {_some(left)} (empty, or over {columns.MOST_TEXTS} texts)." * bool(left)
        filled = sum(each.missing for each in self.inputs)
        return about + f" {plural(filled, 'missing value')} filled." * bool(filled)

    def arrays(self, new: Callable[[str, tuple[int, ...], Any], np.ndarray]) -> dict[str, np.ndarray]:
        """`x`, `y` and `tasks`. `new(name, shape, type)` makes an array."""
        target = self.columns[self.target]
        raw, x = (new(name, (self.rows, self.width), dtype) for name, dtype in (("raw", float), ("x", float_type())))
        y = new("y", (self.rows, 1), float if self.is_number else np.int32)
        tasks = new("tasks", (self.rows,), np.int32)
        tasks[:], begin, place = 0, 0, np.arange(self.rows)
        if self.times:
            place[np.argsort(np.concatenate(self.times), kind="stable")] = np.arange(self.rows)
        for frame in self.chunks():
            at = place[begin : begin + len(frame)]
            begin += len(frame)
            raw[at] = np.concatenate([each.numbers(frame[each.name]) for each in self.inputs], axis=1)
            y[at] = (target.numbers if self.is_number else target.codes)(frame[target.name]).reshape(-1, 1)
            if self.task is not None:
                tasks[at] = self.columns[self.task].codes(frame[self.task])
            for each in (raw, y, tasks):
                release_pages(each)
        scaled = np.repeat([each.kind != "text" for each in self.inputs], [each.width for each in self.inputs])
        _standardize(raw, x, scaled & self.standardize)
        if self.is_number and self.standardize:
            _standardize(y, y, np.array([True]), before=True)
        return {"x": x, "y": y, "tasks": tasks}

    def chunks(self) -> Iterator[Any]:
        """Data frames with all rows, some at a time."""
        import pandas as pd

        columns = [*self.columns]
        size = max(1, VALUES_READ // len(columns))
        if self.path.suffix.lower() == PARQUET:
            for batch in _parquet(self.path).iter_batches(size, columns=columns):
                yield batch.to_pandas(types_mapper=pd.ArrowDtype)
            return
        with pd.read_csv(
            self.path,
            sep=_separator(self.path),
            usecols=columns,
            chunksize=size,
            dtype_backend="numpy_nullable",
            low_memory=False,  # a kind for a column, not for its parts
        ) as frames:
            yield from frames


def _column_names(path: Path) -> list[str]:
    import pandas as pd

    if path.suffix.lower() == PARQUET:
        return _parquet(path).schema_arrow.names
    _check_lines(path)
    names = [*map(str, pd.read_csv(path, sep=_separator(path), nrows=0).columns)]
    if any(name.replace(".", "").isdigit() for name in names):
        raise ValueError(f"the first line of {path} must name the columns, got {', '.join(names[:FEW])}")
    return names


def _check_lines(path: Path) -> None:
    """An error for a line with more or fewer fields than the first, which pandas would cut or fill."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.reader(file, delimiter=_separator(path))
        try:
            fields = len(next(rows, []))
            for row in rows:
                if len(row) not in (0, fields):
                    raise ValueError(
                        f"line {rows.line_num:,} of {path} must have {plural(fields, 'field')}, as the first line, got "
                        f"{len(row)}: put texts with a separator into quotes"
                    )
        except UnicodeDecodeError as problem:
            byte = problem.object[problem.start]
            raise ValueError(f"{path} must be UTF-8, got the byte {byte:#x}: save it as UTF-8") from None
        except csv.Error as problem:
            raise ValueError(f"line {rows.line_num + 1:,} of {path} cannot be read: {problem}") from None


def _separator(path: Path) -> str:
    """The separator that is most often in the first line."""
    with path.open(encoding="utf-8", errors="replace") as file:
        return max(",;\t|", key=file.readline().count)


def _parquet(path: Path) -> Any:
    try:
        from pyarrow.parquet import ParquetFile  # pyright: ignore[reportMissingImports]
    except ModuleNotFoundError:
        raise ModuleNotFoundError(f"{path} needs pyarrow: pip install pyarrow") from None
    return ParquetFile(path)


def _some(names: list[Any]) -> str:
    """The first names of a list."""
    return listed([*map(str, names)]) if len(names) <= 5 else f"{', '.join(map(str, names[:4]))} ..."


def last_targets(y: np.ndarray) -> np.ndarray:
    """The previous target in the standardised units of each row, where targets were standardised by the mean before.

    Row n (from 1) is (target - mean before) / deviation, so that the deviation before, squared, is
    (n - y² (n - 1) / n) / (n - 1) times the square of that of the row.
    """
    n, last = np.arange(2, len(y) + 1)[:, None], np.zeros_like(y)
    shrinkage = np.sqrt(np.maximum(n - y[1:] ** 2 * (n - 1) / n, 0) / (n - 1))
    last[1:] = y[:-1] * shrinkage * (n - 2) / (n - 1)
    return last


def _standardize(raw: np.ndarray, out: np.ndarray, scaled: np.ndarray, before: bool = False) -> None:
    """Writes `raw` to `out`, the columns `scaled` standardised by the rows so far, and missing numbers as the mean."""
    so_far, size = Moments(), max(1, VALUES_READ // raw.shape[1])
    for begin in range(0, len(raw), size):
        values = raw[begin : begin + size]
        standard, means, so_far = standardized(values, so_far, before=before)
        standard = standard if before else np.clip(standard, -FAR, FAR)
        out[begin : begin + size] = np.where(scaled, standard, np.where(np.isnan(values), means, values))
        release_pages(raw)
        release_pages(out)
