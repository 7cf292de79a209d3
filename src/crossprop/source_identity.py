"""The identity of a user's own code: a hash that changes when the code does.

For a learner, a stream or a function that is not the package's own it covers

- the source of the modules that define it and of all modules of the user's own that these import, without comments,
  docstrings and formatting. A main script or a notebook is not hashed whole, since an edit of its call of `sweep` is no
  edit of a learner;
- the compiled code of the functions used, since a file may have been edited after it was imported, and scripts and
  notebooks have no other;
- the values that they use: defaults, closures, attributes, and the global variables that they name.

An installed package counts by its name and version.
"""

import ast
import copyreg
import dataclasses
import hashlib
import inspect
import sys
import types
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache, reduce
from importlib import metadata
from importlib.machinery import PathFinder
from importlib.util import resolve_name
from operator import attrgetter, methodcaller
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from crossprop._support.warning import warn
from crossprop.configuration import configuration
from crossprop.hyperparameters import forget_structures, given_for

LIBRARIES = {"crossprop", "jax", "jaxlib", "numpy", "scipy", "optax", "equinox", "jaxtyping", "xarray"}
"""Known by name alone: changes of their versions are seen in the attributes of records, or do not alter results."""
MAIN = "__main__"
UNSEEN = {"eval", "exec", "globals", "__import__", "import_module", "environ", "getenv"}
"""Names by which code reaches other code or settings; a warning tells of them. Files that it reads are data: a warning
for them would come with every sweep over a data set, and see `open` but not `np.load`."""
WRAPPED = ("__wrapped__", "__func__", "__self__", "func", "args", "keywords", "fget", "fset", "fdel", "pyfunc")
"""Attributes in which wrappers of functions, a library's or Python's, keep the function and what they give it."""
PLAIN = bool | int | float | complex | str | bytes | None


class CodeIdentity(NamedTuple):
    """The identity of code, and the things in it that could not be looked into."""

    sha256: str
    unknown: tuple[str, ...]


Bindings = list[tuple[Mapping[str, Any], str, Any]]
"""Global variables and class attributes that code uses: the namespace and name of each, and its value then."""


def code_identity(value: Any, *, imported: bool = False) -> CodeIdentity | None:
    """The identity of all code in a learner, a stream or a function that the package does not define itself; None if
    there is none. Values that `configuration` describes do not count. With `imported`, neither does code that pickle
    sends by value to another process."""
    outside = [(path, each) for path, each in _outside(value, "") if not imported or _is_importable(each)]
    if not outside:
        return None
    walk = _Walk()
    walk.visit_all(part for item in outside for part in item)
    return CodeIdentity(walk.digest.hexdigest(), tuple(dict.fromkeys(walk.unknown)))


def warn_unknown(sources: Mapping[str, CodeIdentity], where: str) -> None:
    """One warning that names what could not be looked into."""
    unknown = [f"{name} uses {', '.join(source.unknown)}" for name, source in sources.items() if source.unknown]
    if unknown:
        warn(
            f"{where} cannot tell whether all of the code was edited since its results were written: "
            f"{'; '.join(unknown)}. Choose another folder after a change there"
        )


_latest: dict[int, tuple[weakref.ref[Any], str]] = {}
"""The identity of each class and function of the user's own when programs were last compiled from it, by `id`."""


def drop_outdated_programs(*values: Any) -> Bindings:
    """Makes JAX compile everything anew if code that these values use was edited in this process, by a reload or in a
    notebook, or if it reads other values now. JAX would go on with programs of the old code. Returns what that code has
    looked up."""
    bindings: Bindings = []
    for key, each in {id(each): each for value in values for _, each in _outside(value, "")}.items():
        walk = _Walk()
        walk.visit(each)
        bindings += walk.bindings
        known, latest = _latest.get(key), walk.digest.hexdigest()
        if known is not None and known[0]() is each and known[1] != latest:
            jax.clear_caches()
            forget_structures()
        with suppress(TypeError):  # some objects take no weak references
            _latest[key] = weakref.ref(each, lambda _, key=key: _latest.pop(key, None)), latest
    return bindings


def are_bound(bindings: Bindings) -> bool:
    """Whether names still have the values that they had: a quick check for later edits, which sees most of them."""
    return all(scope.get(name) is value for scope, name, value in bindings)


def _outside(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """What `configuration` tells by name alone, and the package does not define."""
    value = given_for(value)
    if isinstance(value, PLAIN | np.ndarray | np.generic | jax.Array):
        return
    if isinstance(value, Mapping):
        for name, each in value.items():
            yield from _outside(each, f"{path}.{name}")
    elif isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        for number, each in enumerate(value):
            yield from _outside(each, f"{path}[{number}]")
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        if _top(type(value).__module__) != "crossprop":
            yield path, type(value)
        for field in dataclasses.fields(value):
            if field.metadata.get("configuration", True):
                yield from _outside(getattr(value, field.name), f"{path}.{field.name}")
    elif _top(_module_of(value)) != "crossprop" or getattr(value, "__closure__", None):
        yield path, value


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
        return module != MAIN and attrgetter(path)(sys.modules.get(module)) is value
    return False


def _is_library(module: str) -> bool:
    """Whether a module comes with Python or with an installed package."""
    if module == MAIN:
        return False
    file = None if (known := _top(module) in LIBRARIES | sys.stdlib_module_names) else _file(module)
    return known or (file is not None and not {"site-packages", "dist-packages"}.isdisjoint(file.parts))


def _file(module: str) -> Path | None:
    """The file of a module, which need not have been imported yet; None if it has none, or is no module."""
    if module in sys.modules:
        file = getattr(sys.modules[module], "__file__", None)
        return None if file is None else Path(file)
    folders, spec = None, None
    for name in _with_packages(module):
        try:
            spec = PathFinder.find_spec(name, folders)
        except Exception:  # a package may compute where its modules are
            return None
        if spec is None:
            return None
        folders = spec.submodule_search_locations
    return Path(spec.origin) if spec is not None and spec.origin else None


def _with_packages(module: str) -> list[str]:
    """a, a.b and a.b.c for the module a.b.c."""
    return [module.rsplit(".", depth)[0] for depth in range(module.count("."), 0, -1)] + [module]


@lru_cache(256)
def _normalised(contents: bytes, package: str) -> tuple[str, list[str]]:
    """The hash of a module's source without comments, docstrings and formatting, and the modules that it may import."""
    try:
        tree = ast.parse(contents)
    except (SyntaxError, ValueError):  # an extension module
        return hashlib.sha256(contents).hexdigest(), []
    imports: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = node.body[ast.get_docstring(node, clean=False) is not None :]
        elif isinstance(node, ast.Import):
            imports.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            with suppress(ImportError):
                base = resolve_name("." * node.level + (node.module or ""), package)
                imports.update([base, *(f"{base}.{alias.name}" for alias in node.names)])
    names = {name for each in imports for name in _with_packages(each)}
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest(), sorted(names)


def _version(package: str) -> str | None:
    with suppress(metadata.PackageNotFoundError):
        return metadata.version(package)
    return getattr(sys.modules.get(package), "__version__", None)


# Values


class _Walk:
    """One pass over all that a value consists of, which feeds a hash. What was seen before is hashed as its number."""

    def __init__(self):
        self.digest = hashlib.sha256()
        self.unknown: list[str] = []
        self.modules: set[str] = set()
        self.bindings: Bindings = []
        self.seen: dict[int, tuple[int, Any]] = {}  # with the object, so that no other is given its address meanwhile

    def say(self, *words: Any) -> None:
        for word in words:
            text = repr(word).encode()
            self.digest.update(len(text).to_bytes(8, "little") + text)

    def visit(self, value: Any) -> None:
        if isinstance(value, PLAIN) or value is Ellipsis:
            self.say(type(value).__name__, hex(value) if isinstance(value, int) else value)  # repr has a limit
            return
        # Constants that are equal may or may not be one object, depending on where the code was loaded from.
        if type(value) not in (tuple, frozenset, types.CodeType):
            if id(value) in self.seen:
                self.say("seen", self.seen[id(value)][0])
                return
            self.seen[id(value)] = len(self.seen), value
        try:
            self._visit(value)
        except Exception:  # whatever an object has in its way, also deep nesting
            self._give_up(value)

    def visit_all(self, values: Iterable[Any]) -> None:
        for each in values:
            self.visit(each)

    def _visit(self, value: Any) -> None:
        match value:
            case list() | tuple() if type(value) in (list, tuple):
                self.say(type(value).__name__, len(value))
                self.visit_all(value)
            case dict() if type(value) is dict:
                self.say("dict", len(value))
                self.visit_all(part for item in value.items() for part in item)
            case set() | frozenset() if all(isinstance(each, PLAIN | tuple) for each in value):
                self.say("set", sorted(map(repr, value)))
            case np.ndarray() | np.generic() | jax.Array():
                self._array(value)
            case types.CodeType():
                self._code(value)
            case types.FunctionType():
                self._function(value)
            case type():
                self._class(value)
            case types.ModuleType():
                self._module(value.__name__)
            case _:
                self._object(value)

    def _give_up(self, value: Any) -> None:
        name = f"{_module_of(value)}:{getattr(value, '__qualname__', None) or f'a {type(value).__qualname__}'}"
        self.say("unknown", name)
        self.unknown.append(name)

    def _array(self, value: Any) -> None:
        if isinstance(value, np.ma.MaskedArray):
            self.visit(np.ma.getmaskarray(value))
        if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
            value = jax.random.key_data(value)
        array = value if isinstance(value, np.memmap) else np.asarray(value)
        self.say("array", str(array.dtype))
        self.visit(array.tolist() if array.dtype.hasobject else configuration(array))

    def _module(self, name: str) -> None:
        """The source of a module, and of all modules of the user's own that it imports."""
        waiting = [name]
        while waiting:
            name = waiting.pop()
            if name in self.modules or name == MAIN:
                continue
            self.modules.add(name)
            self.say("module", name)
            if _top(name) in LIBRARIES:
                continue
            file = _file(name)
            if file is None or _is_library(name):  # or typed in, or no module, as `name` of `from module import name`
                self.say(_version(_top(name)))
                continue
            try:
                contents = file.read_bytes()
            except OSError:
                self.unknown.append(f"{name}, whose file cannot be read")
                continue
            sha256, imports = _normalised(contents, name if file.stem == "__init__" else name.rpartition(".")[0])
            self.say(sha256)
            waiting += imports

    def _function(self, function: types.FunctionType) -> None:
        module = _module_of(function)
        self.say("function", module, function.__qualname__)
        self._module(module)
        if _is_library(module):
            if function.__module__ != module or not _is_importable(function):
                self.visit_all(_parts(function))
            return
        self._code(function.__code__, function.__doc__)
        self.visit_all((function.__defaults__, function.__kwdefaults__, *_closure(function)))
        self.visit_all(part for item in sorted(vars(function).items()) for part in item)
        self._globals(function.__globals__, sorted(_names(function.__code__)))

    def _code(self, code: types.CodeType, doc: str | None = None) -> None:
        arguments = code.co_argcount + code.co_kwonlyargcount
        self.say("code", code.co_code, code.co_names, code.co_varnames[:arguments], code.co_flags, code.co_freevars)
        self.say(code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_exceptiontable)
        self.visit_all(None if at == 0 and each == doc else each for at, each in enumerate(code.co_consts))

    def _globals(self, scope: Mapping[str, Any], names: list[str]) -> None:
        """The global variables that a function names, what it names of its modules, and modules that it imports."""
        for name in names:
            if name in scope:
                value = self._bound(scope, name)
                if isinstance(value, types.ModuleType) and not _is_library(value.__name__):
                    self.visit_all(self._bound(vars(value), each) for each in names if hasattr(value, each))
            elif name in UNSEEN:
                self.unknown.append(f"{name}()")
            elif name in sys.modules and not _is_library(name):
                self._module(name)

    def _bound(self, scope: Mapping[str, Any], name: str) -> Any:
        value = scope.get(name)
        self.bindings.append((scope, name, value))
        self.say(name)
        self.visit(value)
        return value

    def _class(self, cls: type) -> None:
        self.say("class", cls.__module__, cls.__qualname__)
        self._module(cls.__module__)
        if _is_library(cls.__module__):
            return
        self.visit_all((*cls.__bases__, type(cls)))
        fields = vars(cls).get("__dataclass_fields__", {})
        for field in fields.values():
            self.say(field.name)
            self.visit_all(each for each in (field.default, field.default_factory) if each is not dataclasses.MISSING)
        for name, value in sorted(vars(cls).items()):
            slot = inspect.ismemberdescriptor(value) or inspect.isgetsetdescriptor(value)
            generated = isinstance(value, types.FunctionType) and value.__code__.co_filename == "<string>"
            noted = name.startswith("__") and not callable(value)  # by Python, dataclasses or pickle
            if not (slot or noted or generated or name in fields or name == "_abc_impl"):
                self._bound(vars(cls), name)

    def _object(self, value: Any) -> None:
        """An object: its class and what it holds, which is what pickle would keep of it."""
        self.say("object", type(value).__module__, type(value).__qualname__)
        if _is_importable(value) and _is_library(value.__module__):
            self.say(value.__module__, value.__qualname__)
        elif _is_library(type(value).__module__) and any(hasattr(value, name) for name in WRAPPED):
            self.visit_all(_parts(value))
        else:
            pickled = copyreg.dispatch_table.get(type(value), methodcaller("__reduce_ex__", 2))
            reduced = pickled(value)
            self.visit(type(value))
            parts = reduced if isinstance(reduced, tuple) else (reduced,)
            self.visit_all([list(each) if isinstance(each, Iterator) else each for each in parts])


def _parts(wrapper: Any) -> Iterator[Any]:
    """What a wrapper of a function holds: the function, and numbers, texts and functions beside it. Other things, such
    as caches and generated checks, do not alter what it computes."""
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


def _names(code: types.CodeType) -> set[str]:
    """The names of globals and attributes in a function and in the functions within it."""
    within = [_names(each) for each in code.co_consts if isinstance(each, types.CodeType)]
    return reduce(set.union, within, {*code.co_names})
