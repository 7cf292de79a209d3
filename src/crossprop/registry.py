"""Learners, optimizers and streams by name: built-in, registered by a user's module, or of an installed package."""

import importlib
import inspect
import sys
import warnings
from collections.abc import Callable, ItemsView, Iterator, Mapping, MutableMapping, ValuesView
from functools import cached_property, partial
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, TypeVar

from crossprop._support import checks as check

T = TypeVar("T")


class Registry(MutableMapping[str, "partial[T]"]):
    """Builders by name: a class, a function or a partial, each kept as a partial.

    Besides the entries that are assigned, a registry has those that installed packages declare as entry points of its
    `group`. Their names are always listed; the package is imported when an entry is read. An entry point that cannot be
    imported is dropped with a warning. An assigned entry takes precedence over an entry point of the same name.

    ```python
    LEARNERS["my-rule"] = MyRule
    learner = LEARNERS["my-rule"](network, step_size=1e-3)
    ```
    """

    def __init__(self, group: str, builders: Mapping[str, Callable[..., T]]):
        self.group = group
        self._builders: dict[str, partial[T]] = {}
        self.update(builders)  # pyright: ignore[reportArgumentType, reportCallIssue]

    @cached_property
    def _entry_points(self) -> dict[str, EntryPoint]:
        return {point.name: point for point in entry_points(group=self.group)}

    def __setitem__(self, name: str, build: Callable[..., T]) -> None:
        if not isinstance(name, str) or not name:
            raise TypeError(f"a name in {self.group} must be a string, got {name!r}")
        if not callable(build):
            raise TypeError(f"{self.group}[{name!r}] must be a class or a function, got {build!r}")
        self._builders[name] = build if isinstance(build, partial) else partial(build)

    def __getitem__(self, name: str) -> "partial[T]":
        if name not in self._builders and name in self._entry_points:
            self._load(self._entry_points.pop(name))
        return self._builders[name]

    def __delitem__(self, name: str) -> None:
        if name not in self:
            raise KeyError(name)
        self._entry_points.pop(name, None)
        self._builders.pop(name, None)

    def __contains__(self, name: object) -> bool:
        return name in self._builders or name in self._entry_points

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*self._builders, *self._entry_points]))

    def __len__(self) -> int:
        return len({*self._builders, *self._entry_points})

    def __or__(self, others: Mapping[str, Callable[..., T]]) -> "dict[str, Callable[..., T]]":
        return {**dict(self.items()), **others}

    def items(self) -> "ItemsView[str, partial[T]]":
        self._load_all()
        return super().items()

    def values(self) -> "ValuesView[partial[T]]":
        self._load_all()
        return super().values()

    @property
    def classes(self) -> dict[str, type[T]]:
        """The assigned classes by name, without entry points and without builders that fix arguments."""
        whole = {name: build.func for name, build in self._builders.items() if not (build.args or build.keywords)}
        return {name: cls for name, cls in whole.items() if isinstance(cls, type)}

    def find(self, argument: str, name: Any) -> "partial[T]":
        """The builder of that name; a ValueError that suggests a similar name if there is none."""
        build = self.get(name) if isinstance(name, str) else None
        if build is None:
            check.choice(argument, name, self)
        assert build is not None
        return build

    def made(self, argument: str, value: str | Mapping[str, Any]) -> T:
        """The object of a name, with its defaults, or of a table with a `name` and arguments."""
        table = {"name": value} if isinstance(value, str) else value
        name, own = table.get("name"), {key: each for key, each in table.items() if key != "name"}
        what = argument if isinstance(value, str) else f"the name of {argument}"
        bound = bind(f"{argument} {name!r}", self.find(what, name), own)
        try:
            return bound()
        except (ValueError, TypeError) as problem:
            raise type(problem)(f"{argument} {name!r}: {problem}") from None

    def _load_all(self) -> None:
        for name in [*self._entry_points]:
            point = self._entry_points.pop(name)
            if name not in self._builders:
                self._load(point)

    def _load(self, point: EntryPoint) -> None:
        try:
            self[point.name] = point.load()
        except Exception as problem:
            package = "an unknown package" if point.dist is None else point.dist.name
            warnings.warn(
                f"{self.group}: the entry point {point.name!r} ({point.value}) of {package} was skipped: "
                f"{one_line(problem)}",
                stacklevel=2,
            )


def arguments_of(build: Callable[..., Any]) -> list[str] | None:
    """The names of the arguments that a builder takes; None if it takes any."""
    parameters = inspect.signature(build).parameters.values()
    if any(each.kind is each.VAR_KEYWORD for each in parameters):
        return None
    return [each.name for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)]


def bind(owner: str, build: "Callable[..., T]", own: Mapping[str, Any], *first: Any) -> "partial[T]":
    """A builder with its arguments, after a check that it takes these and needs no others."""
    known = arguments_of(build)
    for argument in own:
        if known is not None and len(known) == len(first):
            raise ValueError(f"{owner} takes no arguments, got {argument!r}")
        if known is not None:
            check.choice(f"an argument of {owner}", argument, known[len(first) :])
    try:
        inspect.signature(build).bind(*first, **own)
    except TypeError as problem:
        raise ValueError(f"{owner}: {problem}") from None
    return partial(build, *first, **own)


def import_modules(names: Any) -> None:
    """Imports modules that register learners or streams, from the current folder or installed packages."""
    names = [names] if isinstance(names, str) else names
    if not isinstance(names, list | tuple):
        raise TypeError(f"import must be a list of modules, got {names!r}")
    for name in names:
        if not isinstance(name, str) or not all(part.isidentifier() for part in name.split(".")):
            raise ValueError(f"import must name a module, such as my_module or package.module, got {name!r}")
        folder = str(Path.cwd())
        if folder not in sys.path:
            sys.path.insert(0, folder)
        try:
            importlib.import_module(name)
        except (Exception, SystemExit) as problem:
            hint = ": give the module's name, not its file" if name.endswith(".py") else ""
            raise ValueError(f"import: {name} could not be imported{hint}: {one_line(problem)}") from problem


def one_line(problem: BaseException) -> str:
    return f"{type(problem).__name__}: {' '.join(str(problem).split())}"
