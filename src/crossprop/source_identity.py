"""The identity of a user's code: a hash that changes when the code does.

For a learner, a stream or a function from outside the package it covers the bytecode of the functions and classes that
are used, without comments and docstrings, and the values that these use: defaults, closures, attributes, and global
variables that they name. Source is not read: a file may have been edited after it was imported, and notebooks have
none. Of installed packages, names and versions count.
"""

import copyreg
import dataclasses
import dis
import hashlib
import sys
import types
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from importlib import import_module, metadata
from importlib.util import resolve_name
from operator import attrgetter, methodcaller
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from crossprop._support.warning import warn
from crossprop.configuration import configuration
from crossprop.hyperparameters import forget_structures, given_for

LIBRARIES = {"crossprop", "jax", "jaxlib", "numpy", "scipy", "optax", "equinox", "jaxtyping", "xarray"}
"""Packages of which the name alone counts: records name their versions, or these do not alter results."""
UNSEEN = {"eval", "exec", "globals", "__import__", "import_module", "environ", "getenv"}
"""Names by which code reaches other code or settings: a warning lists them. Files that it reads count as data."""
WRAPPED = ("__wrapped__", "__func__", "__self__", "func", "args", "keywords", "fget", "fset", "fdel", "pyfunc")
"""Attributes in which wrappers from libraries keep the wrapped function and its arguments."""
PLAIN = bool | int | float | complex | str | bytes | types.NoneType | types.EllipsisType


class CodeIdentity(NamedTuple):
    """The identity of code, and the names of objects in it that could not be inspected."""

    sha256: str
    unknown: tuple[str, ...]


Bindings = list[tuple[Mapping[str, Any], str, Any]]
"""Global variables and class attributes that code uses: the namespace, the name and the value of each."""


def code_identity(value: Any, *, imported: bool = False) -> CodeIdentity | None:
    """The identity of the code in a learner, a stream or a function from outside the package; None if there is none.
    Values that `configuration` describes do not count. With `imported`, neither does code that pickle sends by value
    to another process."""
    walk = _Walk([item for item in _outside(value) if not imported or _is_importable(item[1])])
    return CodeIdentity(walk.digest.hexdigest(), tuple(dict.fromkeys(walk.unknown))) if walk.seen else None


def warn_unknown(sources: Mapping[str, CodeIdentity], where: str) -> None:
    """One warning that names the objects that could not be inspected."""
    unknown = [f"{name} uses {', '.join(source.unknown)}" for name, source in sources.items() if source.unknown]
    if unknown:
        warn(
            f"{where} cannot tell whether all of the code was edited since its results were written: "
            f"{'; '.join(unknown)}. Choose another folder after a change there"
        )


_latest: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
"""The identity of each of the user's classes and functions when programs were last compiled from it."""


def drop_outdated_programs(*values: Any) -> Bindings:
    """Clears JAX's caches if code that these values use was edited in this process, by a reload or in a notebook, or if
    it reads other values now: JAX would use programs of the old code, also for parts of a new learner, such as the body
    of a loop. Returns the names that the code looks up."""
    bindings: Bindings = []
    for each in {id(each): each for value in values for _, each in _outside(value)}.values():
        walk = _Walk([each])
        bindings += walk.bindings
        found = [(each, walk), *((part, _Walk([part])) for part in walk.code() if part is not each)]
        for part, walked in found:
            with suppress(TypeError):  # some objects have no hash, or take no weak references
                if _latest.get(part, walked.digest.hexdigest()) != walked.digest.hexdigest():
                    jax.clear_caches()
                    forget_structures()
                _latest[part] = walked.digest.hexdigest()
    return bindings


def are_bound(bindings: Bindings) -> bool:
    """Whether names still have these values: a quick check, which notices most edits."""
    return all(scope.get(name) is value for scope, name, value in bindings)


def _outside(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The parts from outside the package that `configuration` describes by name alone, with their paths."""
    value = given_for(value)
    parts: Mapping[Any, Any] = {}
    if isinstance(value, PLAIN | np.ndarray | np.generic | jax.Array):
        return
    if isinstance(value, Mapping):
        parts = value
    elif isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        parts = dict(enumerate(value))
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        if _top(type(value).__module__) != "crossprop":
            yield path, type(value)
        described = [field.name for field in dataclasses.fields(value) if field.metadata.get("configuration", True)]
        parts = {name: getattr(value, name) for name in described}
    elif _top(_module_of(value)) != "crossprop" or getattr(value, "__closure__", None):
        yield path, value
    for name, each in parts.items():
        yield from _outside(each, f"{path}.{name}")


# Modules


def _top(module: str) -> str:
    return module.partition(".")[0]


def _module_of(value: Any) -> str:
    """The module of a function, a class or the class of an object. `functools.wraps` may have named another one."""
    if isinstance(value, types.FunctionType):
        return str(value.__globals__.get("__name__", "?"))
    name = getattr(value, "__module__", None)
    return name if isinstance(name, str) else type(value).__module__


def _is_importable(value: Any) -> bool:
    """Whether a module other than the main one has this under its own name, so that pickle names it."""
    module, path = str(getattr(value, "__module__", None)), str(getattr(value, "__qualname__", "?"))
    with suppress(AttributeError):
        return module != "__main__" and attrgetter(path)(sys.modules.get(module)) is value
    return False


def _is_library(module: str) -> bool:
    """Whether a module comes with Python or with an installed package."""
    file = getattr(sys.modules.get(module), "__file__", None) or ""
    installed = not {"site-packages", "dist-packages"}.isdisjoint(Path(file).parts)
    return module != "__main__" and (installed or _top(module) in LIBRARIES | sys.stdlib_module_names)


def _is_own_code(value: Any) -> bool:
    return isinstance(value, types.FunctionType | type) and not _is_library(_module_of(value))


def _version(module: str) -> str | None:
    """The version of an installed package."""
    if _top(module) in LIBRARIES | sys.stdlib_module_names:
        return None
    with suppress(metadata.PackageNotFoundError):
        return metadata.version(_top(module))
    return getattr(sys.modules.get(_top(module)), "__version__", None)


# Values


class _Walk:
    """Hashes values and all that they consist of; an object that was met before is hashed as its number."""

    def __init__(self, values: Iterable[Any]):
        self.digest = hashlib.sha256()
        self.unknown: list[str] = []
        self.bindings: Bindings = []
        self.seen: dict[int, tuple[int, Any]] = {}  # with the object, so that no other is given its address meanwhile
        for value in values:
            self._visit(value)

    def code(self) -> list[Any]:
        """The user's functions and classes among the objects met."""
        return [value for _, value in self.seen.values() if _is_own_code(value)]

    def _visit(self, value: Any) -> None:
        if isinstance(value, PLAIN):
            text = f"{type(value).__name__} {hex(value) if isinstance(value, int) else repr(value)}"  # repr has a limit
            self.digest.update(f"{len(text)} {text}".encode())
            return
        # Constants that are equal may or may not be one object, depending on where the code was loaded from.
        if type(value) not in (tuple, frozenset, types.CodeType) and id(value) in self.seen:
            self._visit(f"seen {self.seen[id(value)][0]}")
            return
        self.seen.setdefault(id(value), (len(self.seen), value))
        self.digest.update(b"(")
        try:
            for part in self._parts(value):
                self._visit(part)
        except Exception:  # objects may raise anything, and nesting may be too deep
            name = getattr(value, "__qualname__", None) or f"a {type(value).__qualname__}"
            self.unknown.append(f"{_module_of(value)}:{name}")
        self.digest.update(b")")

    def _parts(self, value: Any) -> Iterator[Any]:
        """The parts of a value: texts, numbers and other values."""
        kind = type(value)
        yield f"{kind.__module__}.{kind.__qualname__}"
        if kind in (list, tuple, dict):
            yield from value.items() if kind is dict else value
        elif kind in (set, frozenset):
            if not all(isinstance(each, PLAIN | tuple) for each in value):
                raise TypeError("the order of other things differs from process to process")
            yield from sorted(map(repr, value))
        elif isinstance(value, np.ndarray | np.generic | jax.Array):
            yield str(value.dtype)
            yield value.tolist() if value.dtype == object else configuration(value)
            yield configuration(np.ma.getmaskarray(value)) if isinstance(value, np.ma.MaskedArray) else None
        elif isinstance(value, types.CodeType):
            arguments = value.co_varnames[: value.co_argcount + value.co_kwonlyargcount]
            yield from (value.co_code, value.co_names, arguments, value.co_flags, value.co_freevars, *value.co_consts)
            yield from (value.co_argcount, value.co_posonlyargcount, value.co_kwonlyargcount, value.co_exceptiontable)
        else:
            yield from self._object(value)

    def _object(self, value: Any) -> Iterator[Any]:
        if isinstance(value, types.ModuleType):
            yield value.__name__
            if not _is_library(value.__name__):
                yield from self._used(vars(value), set())
        elif _is_own_code(value):
            yield f"{_module_of(value)}.{value.__qualname__}"
            yield from self._class(value) if isinstance(value, type) else self._function(value)
        elif isinstance(value, type) or (_is_importable(value) and _is_library(value.__module__)):
            yield from (f"{value.__module__}.{value.__qualname__}", _version(value.__module__))
        elif isinstance(value, types.FunctionType) or _is_wrapper(value):
            yield from _wrapped(value)
        else:  # what pickle would keep of it
            yield type(value)
            reduced = copyreg.dispatch_table.get(type(value), methodcaller("__reduce_ex__", 2))(value)
            for part in reduced if isinstance(reduced, tuple) else (reduced,):
                yield list(part) if isinstance(part, Iterator) else part

    def _function(self, function: types.FunctionType) -> Iterator[Any]:
        code = function.__code__
        has_docstring = code.co_consts[:1] == (function.__doc__,)
        yield code.replace(co_consts=(None, *code.co_consts[1:])) if has_docstring else code
        yield from (function.__defaults__, function.__kwdefaults__, *_closure(function))
        yield from sorted(vars(function).items())
        names = {name for each in _codes(code) for name in each.co_names}
        self.unknown += [f"{name}()" for name in sorted(names & UNSEEN) if name not in function.__globals__]
        yield from self._named(function.__globals__, names)
        modules = [*_imported(function), *_modules_in(function.__globals__, names)]
        for module in modules:  # to which those are added that the function names in them
            yield from self._used(vars(module), names)
            modules += [each for each in _modules_in(vars(module), names) if each not in modules]

    def _used(self, scope: Mapping[str, Any], names: set[str]) -> Iterator[Any]:
        """The variables of a module that code names; all functions and classes if it names none or uses `getattr`."""
        if not names & scope.keys() or "getattr" in names:
            names = names | {name for name, value in scope.items() if isinstance(value, types.FunctionType | type)}
        yield from self._named(scope, names)

    def _named(self, scope: Mapping[str, Any], names: set[str]) -> Iterator[Any]:
        for name in sorted(names & scope.keys()):
            value = scope[name]
            self.bindings.append((scope, name, value))
            yield from (name, value.__name__ if isinstance(value, types.ModuleType) else value)

    def _class(self, cls: type) -> Iterator[Any]:
        yield from (*cls.__bases__, type(cls))
        for field in vars(cls).get("__dataclass_fields__", {}).values():
            yield from (field.name, field.default, field.default_factory)
        for name, value in sorted(vars(cls).items()):
            if _is_code(name, value):
                self.bindings.append((vars(cls), name, value))
                yield from (name, value)


def _is_code(name: str, value: Any) -> bool:
    """Whether an attribute of a class is the user's, not one that Python, dataclasses or pickle have set."""
    generated = isinstance(value, types.FunctionType) and value.__code__.co_filename == "<string>"
    is_method = callable(value) or (hasattr(value, "__get__") and not hasattr(value, "__set__"))
    return name != "_abc_impl" and (not name.startswith("__") or (is_method and not generated))


def _modules_in(scope: Mapping[str, Any], names: set[str]) -> list[types.ModuleType]:
    """The modules of the user's own that code names in a namespace."""
    modules = (scope[name] for name in sorted(names & scope.keys()) if isinstance(scope[name], types.ModuleType))
    return [module for module in modules if not _is_library(module.__name__)]


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """The code of a function and of the functions within it."""
    yield code
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            yield from _codes(each)


def _imported(function: types.FunctionType) -> Iterator[types.ModuleType]:
    """The modules that a function imports when it runs."""
    for code in _codes(function.__code__):
        if dis.opmap["IMPORT_NAME"] not in code.co_code[::2]:
            continue
        steps = [step for step in dis.get_instructions(code) if step.opname != "EXTENDED_ARG"]
        for level, _, step in zip(steps, steps[1:], steps[2:], strict=False):
            if step.opname == "IMPORT_NAME":
                with suppress(ImportError):  # the function could not import it either
                    package = function.__globals__.get("__package__")
                    yield import_module(resolve_name("." * level.argval + step.argval, package))


def _is_wrapper(value: Any) -> bool:
    return _is_library(type(value).__module__) and any(hasattr(value, name) for name in WRAPPED)


def _wrapped(wrapper: Any) -> Iterator[Any]:
    """The function in a wrapper, and numbers, texts and functions beside it. Other things there, such as caches and
    generated checks, do not alter what it computes."""
    wrapped = [part for name in WRAPPED if (part := getattr(wrapper, name, None)) is not None]
    beside = [*_closure(wrapper), *(value for _, value in sorted(getattr(wrapper, "__dict__", {}).items()))]
    yield from wrapped
    yield from (each for each in beside if not wrapped or _is_simple(each))


def _is_simple(value: Any) -> bool:
    if isinstance(value, list | tuple | set | frozenset):
        return all(map(_is_simple, value))
    return isinstance(value, PLAIN | np.ndarray | jax.Array) or (callable(value) and not isinstance(value, weakref.ref))


def _closure(function: Any) -> Iterator[Any]:
    for cell in getattr(function, "__closure__", None) or ():
        with suppress(ValueError):  # not assigned yet
            yield cell.cell_contents
