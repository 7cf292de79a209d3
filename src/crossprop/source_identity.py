"""The identity of a user's own code: a hash that changes when the code does.

It covers, for a learner, a stream or a function that is not the package's own:

- the source of each module that defines it, and of each module of the user's own that this one imports, directly or
  not, without comments, docstrings and formatting. A main script, a notebook or an interactive session is not hashed
  whole, since an edit of its call of `sweep` is no edit of a learner; its functions and classes are, if they are used;
- the compiled code of the functions used, since a file may have been edited after it was imported;
- values: what functions close over, their defaults and attributes, the global variables that they name, and what
  objects hold.

An installed package counts by its name and version.
"""

import ast
import dataclasses
import dis
import functools
import hashlib
import inspect
import sys
import types
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from importlib import metadata
from importlib.machinery import PathFinder
from importlib.util import resolve_name
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from crossprop._support.warning import warn
from crossprop.configuration import configuration
from crossprop.hyperparameters import unwrapped

LIBRARIES = {"crossprop", "jax", "jaxlib", "numpy", "scipy", "optax", "equinox", "jaxtyping", "xarray"}
"""Known by name alone: changes of their versions are seen in the attributes of records, or do not alter results."""
INSTALLED = {"site-packages", "dist-packages"}
MAIN = "__main__"
UNSEEN = {"eval", "exec", "globals", "__import__", "import_module", "environ", "getenv"}
"""Names by which code reaches other code or settings; a warning tells of them. Files that it reads are data: a warning
for them would come with every sweep over a data set, and see `open` but not `np.load`."""
MOST_PARTS = 100_000
"""Values with more parts than this are not hashed completely."""
WRAPPERS = {
    types.MethodType: ("__func__", "__self__"),
    staticmethod: ("__func__",),
    classmethod: ("__func__",),
    property: ("fget", "fset", "fdel"),
    functools.cached_property: ("func",),
    functools.partial: ("func", "args", "keywords"),
}
"""What wrappers of functions hold."""
PLAIN = bool | int | float | complex | str | bytes | None


class CodeIdentity(NamedTuple):
    """The identity of code, and the things in it that could not be looked into."""

    sha256: str
    unknown: tuple[str, ...]


def code_identity(value: Any, *, imported: bool = False) -> CodeIdentity | None:
    """The identity of all code in a learner, a stream or a function that the package does not define itself; None if
    there is none. Values that `configuration` describes do not count. With `imported`, neither does code that pickle
    sends by value to another process."""
    outside = [(path, each) for path, each in _outside(value, "") if not imported or _is_importable(each)]
    if not outside:
        return None
    walk = _Walk()
    for path, each in outside:
        walk.say(path)
        walk.visit(each)
    return CodeIdentity(walk.digest.hexdigest(), tuple(dict.fromkeys(walk.unknown)))


def warn_unknown(sources: Mapping[str, CodeIdentity], where: str) -> None:
    """One warning that names what could not be looked into."""
    unknown = [f"{name} uses {', '.join(source.unknown)}" for name, source in sources.items() if source.unknown]
    if unknown:
        warn(
            f"{where} cannot tell whether all of the code was edited since its results were written: "
            f"{'; '.join(unknown)}. Choose another folder after a change there"
        )


Bindings = list[tuple[Callable[[str], Any], str, Any]]
"""Global variables and class attributes that code uses: how to look each up, by which name, and its value then."""

_latest: dict[int, tuple[weakref.ref[Any], str]] = {}
"""The identity of each class and function of the user's own when programs were last compiled from it, by `id`."""


def drop_outdated_programs(*values: Any) -> Bindings:
    """Makes JAX compile everything anew if code that these values use was edited in this process, by a reload or in a
    notebook, or if it reads other values now. JAX would go on with programs of the old code. Returns what that code has
    looked up."""
    bindings: Bindings = []
    for each in {id(each): each for value in values for _, each in _outside(value, "")}.values():
        walk = _Walk()
        walk.visit(each)
        bindings += walk.bindings
        known, latest, key = _latest.get(id(each)), walk.digest.hexdigest(), id(each)
        if known is not None and known[0]() is each and known[1] != latest:
            jax.clear_caches()
        with suppress(TypeError):  # some objects take no weak references
            _latest[key] = weakref.ref(each, lambda _, key=key: _latest.pop(key, None)), latest
    return bindings


def are_bound(bindings: Bindings) -> bool:
    """Whether names still have the values that they had: a quick check for later edits, which sees most of them."""
    return all(look_up(name) is value for look_up, name, value in bindings)


def _outside(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """What `configuration` tells by name alone, and the package does not define."""
    value = unwrapped(value)
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


def _top(module: str) -> str:
    return module.partition(".")[0]


def _module_of(value: Any) -> str:
    """The module that defines a function, a class or the class of an object. A decorator may have given a function of
    its own the name of another module."""
    if isinstance(value, types.FunctionType):
        return str(value.__globals__.get("__name__", "?"))
    own = getattr(value, "__module__", None)
    return own if isinstance(own, str) else type(value).__module__


def _is_importable(value: Any) -> bool:
    """Whether a module other than the main one has this under its own name, so that pickle names it."""
    module, path = str(getattr(value, "__module__", None)), str(getattr(value, "__qualname__", "?")).split(".")
    found = functools.reduce(lambda owner, name: getattr(owner, name, None), path, sys.modules.get(module))
    return module != MAIN and found is value


def _is_library(module: str) -> bool:
    """Whether a module comes with Python or with an installed package."""
    if module == MAIN:
        return False
    if _top(module) in LIBRARIES | sys.stdlib_module_names:
        return True
    file = _file(module)
    return file is not None and not INSTALLED.isdisjoint(file.parts)


def _file(module: str) -> Path | None:
    """The file of a module, which need not have been imported yet."""
    if module in sys.modules:
        file = getattr(sys.modules[module], "__file__", None)
        return None if file is None else Path(file)
    parts, folders, spec = module.split("."), None, None
    for at in range(len(parts)):
        spec = PathFinder.find_spec(".".join(parts[: at + 1]), folders)
        if spec is None:
            return None
        folders = spec.submodule_search_locations
    return Path(spec.origin) if spec is not None and spec.origin else None


class _Source(NamedTuple):
    """A file of code: the hash of its normalised source, and the names of modules that it may import."""

    sha256: str
    imports: frozenset[str]


@functools.lru_cache(256)
def _parsed(contents: bytes, package: str) -> _Source:
    try:
        tree = ast.parse(contents)
    except (SyntaxError, ValueError):  # an extension module
        return _Source(hashlib.sha256(contents).hexdigest(), frozenset())
    imports: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(
            node, clean=False
        ):
            del node.body[0]
        elif isinstance(node, ast.Import):
            imports.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            try:
                base = resolve_name("." * node.level + (node.module or ""), package)
            except ImportError:
                continue
            imports.update([base, *(f"{base}.{alias.name}" for alias in node.names)])
    packages = {name.rsplit(".", depth)[0] for name in imports for depth in range(1, name.count(".") + 1)}
    return _Source(hashlib.sha256(ast.dump(tree).encode()).hexdigest(), frozenset(imports | packages))


class _Walk:
    """One pass over all that a value consists of, which feeds a hash. What was seen before is hashed as its number."""

    def __init__(self):
        self.digest = hashlib.sha256()
        self.unknown: list[str] = []
        self.modules: set[str] = set()
        self.bindings: Bindings = []
        self.seen: dict[int, int] = {}
        self.kept: list[Any] = []  # so that no address is given to another object meanwhile

    def say(self, *words: Any) -> None:
        for word in words:
            text = repr(word).encode()
            self.digest.update(len(text).to_bytes(8, "little") + text)

    def visit(self, value: Any) -> None:
        if isinstance(value, PLAIN) or value is Ellipsis:
            self.say(type(value).__name__, value)
            return
        # Constants that are equal may or may not be one object, depending on where the code was loaded from.
        if type(value) not in (tuple, frozenset, types.CodeType):
            if (number := self.seen.get(id(value))) is not None:
                self.say("seen", number)
                return
            self.seen[id(value)] = len(self.seen)
            self.kept.append(value)
        if len(self.seen) == MOST_PARTS:
            self.unknown.append(f"more than {MOST_PARTS:,} parts of it")
        if len(self.seen) >= MOST_PARTS:
            return
        try:
            self._visit(value)
        except RecursionError:
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
            case set() | frozenset():
                self.say("set", sorted(self._alone(each) for each in value))
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
            case types.BuiltinFunctionType() if not isinstance(value.__self__, types.ModuleType | None):
                self.visit_all(("method", value.__name__, value.__self__))
            case _ if type(value) in WRAPPERS:
                self.say(type(value).__name__)
                self.visit_all(getattr(value, part, None) for part in WRAPPERS[type(value)])
            case _:
                self._object(value)

    def _alone(self, value: Any) -> str:
        walk = _Walk()
        walk.visit(value)
        self.unknown += walk.unknown
        return walk.digest.hexdigest()

    def _give_up(self, value: Any) -> None:
        name = getattr(value, "__qualname__", None) or f"a {type(value).__qualname__}"
        self.say("unknown", _module_of(value), name)
        self.unknown.append(f"{_module_of(value)}:{name}")

    def _array(self, value: Any) -> None:
        if isinstance(value, np.memmap):
            self.say("file", configuration(value))
            return
        if isinstance(value, np.ma.MaskedArray):
            self.visit(np.ma.getmaskarray(value))
        if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
            value = jax.random.key_data(value)
        array = np.asarray(value)
        self.say("array", array.shape, array.dtype.str, array.dtype.name)
        if array.dtype.hasobject:
            self.visit(array.tolist())
        else:
            self.digest.update(hashlib.sha256(np.ascontiguousarray(array).reshape(-1).view(np.uint8)).digest())

    def _module(self, name: str) -> None:
        """The source of a module, and of all modules of the user's own that it imports."""
        waiting = [name]
        while waiting:
            name = waiting.pop()
            if name in self.modules or name == MAIN:
                continue
            self.modules.add(name)
            self.say("module", name)
            file = _file(name)
            if (
                _is_library(name) or file is None
            ):  # or typed in; or no module: `from module import name` may name either
                if _top(name) not in LIBRARIES:
                    self.say(_version(_top(name)))
                continue
            try:
                contents = file.read_bytes()
            except OSError:
                self.unknown.append(f"{name}, whose file cannot be read")
                continue
            package = name if file.stem == "__init__" else name.rpartition(".")[0]
            source = _parsed(contents, package)
            self.say(source.sha256)
            waiting += sorted(source.imports)

    def _function(self, function: types.FunctionType) -> None:
        module = _module_of(function)
        self.say("function", module, function.__qualname__)
        self._module(module)
        if _is_library(module):
            if function.__module__ != module or not _is_importable(function):
                self.visit_all(_held(function))
            return
        self._code(function.__code__, function.__doc__)
        self.visit_all((function.__defaults__, function.__kwdefaults__, *_closure(function)))
        self.visit_all(part for item in sorted(vars(function).items()) for part in item)
        self._globals(function)

    def _code(self, code: types.CodeType, doc: str | None = None) -> None:
        arguments = code.co_argcount + code.co_kwonlyargcount
        self.say("code", code.co_code, code.co_names, code.co_varnames[:arguments], code.co_flags, code.co_freevars)
        self.say(code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_exceptiontable)
        self.visit_all(None if at == 0 and each == doc else each for at, each in enumerate(code.co_consts))

    def _globals(self, function: types.FunctionType) -> None:
        """The global variables that a function names, what it names of its modules, and the modules that it imports."""
        scope, names = function.__globals__, sorted(_names(function.__code__))
        self.unknown += [f"{name}()" for name in names if name in UNSEEN and name not in scope]
        for name in names:
            if name not in scope:
                continue
            value = self._bound(scope, name)
            if isinstance(value, types.ModuleType) and not _is_library(value.__name__):
                for each in names:
                    if hasattr(value, each):
                        self._bound(vars(value), each)
        for name in sorted(_imported(function.__code__, str(scope.get("__package__") or ""))):
            if _file(name) is not None:
                self._module(name)

    def _bound(self, scope: Mapping[str, Any], name: str) -> Any:
        value = scope.get(name)
        self.bindings.append((scope.get, name, value))
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
            generated = isinstance(value, types.FunctionType) and value.__code__.co_filename.startswith("<")
            noted = name.startswith("__") and not callable(value)  # by Python, dataclasses or pickle
            if not (slot or noted or name in fields or name == "_abc_impl" or (fields and generated)):
                self._bound(vars(cls), name)

    def _object(self, value: Any) -> None:
        """An object: its class and what it holds, which is what pickle would keep of it."""
        kind = type(value)
        self.say("object", kind.__module__, kind.__qualname__)
        if _is_importable(value) and _is_library(value.__module__):
            self.say(value.__module__, value.__qualname__)
        elif hasattr(value, "__wrapped__"):  # a function that a library has compiled
            self.visit_all(_held(value))
        else:
            try:
                reduced = value.__reduce_ex__(2)
            except Exception:  # whatever the object has in its way
                self._give_up(value)
                return
            self.visit(kind)
            parts = reduced if isinstance(reduced, tuple) else (reduced,)
            self.visit_all([list(each) if isinstance(each, Iterator) else each for each in parts])


def _held(wrapper: Any) -> Iterator[Any]:
    """What a library's wrapper of a function holds: the function, and numbers, texts and functions beside it. Other
    things, such as caches and generated checks, do not alter what it computes."""
    wrapped = getattr(wrapper, "__wrapped__", None)
    attributes = dict(getattr(wrapper, "__dict__", {}), __wrapped__=wrapped)
    for each in (*_closure(wrapper), *(attributes[name] for name in sorted(attributes))):
        if wrapped is None or _is_simple(each):
            yield each


def _is_simple(value: Any) -> bool:
    if isinstance(value, list | tuple | set | frozenset):
        return all(map(_is_simple, value))
    return isinstance(value, PLAIN | np.ndarray | jax.Array) or callable(value)


def _closure(function: Any) -> Iterator[Any]:
    for cell in getattr(function, "__closure__", None) or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not assigned yet
            yield None


def _codes(code: types.CodeType) -> list[types.CodeType]:
    """The code of a function and of the functions within it."""
    within = [each for each in code.co_consts if isinstance(each, types.CodeType)]
    return [code, *(deeper for each in within for deeper in _codes(each))]


def _names(code: types.CodeType) -> set[str]:
    """The names of globals and attributes in a function."""
    return {name for each in _codes(code) for name in each.co_names}


def _imported(code: types.CodeType, package: str) -> set[str]:
    """The modules that a function may import."""
    instructions = [each for part in _codes(code) for each in dis.get_instructions(part)]
    names = {each.argval for each in instructions if each.opname == "IMPORT_NAME" and each.argval}
    return names | {f"{package}.{name}" for name in names if package}


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return str(getattr(sys.modules.get(package), "__version__", None))
