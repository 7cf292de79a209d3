"""Which code a learner, a stream or a function of the user's own runs, as a hash that changes when the code does.

What the package itself defines, and what its own libraries define, counts by its name. Everything else counts by its
compiled code: the instructions, constants and names of a function, and in turn all that they use: functions, classes
and values of its module and of modules it imports, the variables it closes over, its defaults, base classes, and the
values of objects. Comments, formatting and the docstrings of functions and classes do not count.
"""

import dataclasses
import dis
import functools
import hashlib
import importlib.util
import inspect
import sys
import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from crossprop._warning import warn
from crossprop.configuration import configuration
from crossprop.hyperparameters import unwrapped

LIBRARIES = {"crossprop", "jax", "jaxlib", "numpy", "scipy", "optax", "equinox", "jaxtyping", "xarray"}
"""Known by name alone: changes of their versions are seen in the attributes of records, or do not alter results."""
INSTALLED = {"site-packages", "dist-packages"}
MOST_PARTS = 100_000
"""Values with more parts than this are not hashed completely."""
PLAIN = bool | int | float | str
GENERATED = {"__repr__", "__eq__", "__hash__", "__lt__", "__le__", "__gt__", "__ge__", "__setattr__", "__delattr__"}
UNCOUNTED = {
    *("__doc__", "__module__", "__dict__", "__weakref__", "__annotations__", "__abstractmethods__", "_abc_impl"),
    *("__dataclass_params__", "__dataclass_fields__", "__match_args__", "__parameters__", "__orig_bases__"),
    *("__abstractvars__", "__abstractclassvars__", "__firstlineno__", "__static_attributes__", "__annotate__"),
    *("__annotate_func__", "__annotations_cache__", "__classdictcell__", "__type_params__", "__qualname__"),
}
"""Attributes of a class that do not alter what it computes, or that follow from others."""


class CodeIdentity(NamedTuple):
    """The identity of code, and the things in it that could not be looked into."""

    sha256: str
    unknown: tuple[str, ...]


def code_identity(value: Any, *, imported: bool = False) -> CodeIdentity | None:
    """The identity of all code in a learner, a stream or a function that the package does not define itself; None if
    there is none. Values that `configuration` describes do not count; with `imported`, nor does code that would be sent
    to another process with the value, instead of being imported there."""
    outside = [(path, each) for path, each in _outside(value, "") if not imported or _is_imported(each)]
    if not outside:
        return None
    walk = _Walk({_top(_module_of(each)) for _, each in outside})
    for path, each in outside:
        walk.say(path)
        walk.visit(each)
    return CodeIdentity(walk.found.hexdigest(), tuple(dict.fromkeys(walk.unknown)))


def warn_unknown(sources: Mapping[str, CodeIdentity], where: str) -> None:
    """One warning that names what could not be looked into."""
    unknown = [f"{name} uses {', '.join(source.unknown)}" for name, source in sources.items() if source.unknown]
    if unknown:
        warn(
            f"{where} cannot tell whether all of the code was edited since its results were written: "
            f"{'; '.join(unknown)}. Choose another folder after a change there"
        )


def _outside(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """What `configuration` tells by name alone, and the package does not define."""
    value = unwrapped(value)
    if value is None or isinstance(value, bool | int | float | str | np.ndarray | np.generic | jax.Array):
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


def _is_imported(value: Any) -> bool:
    """Whether a module other than the main one has a function or class under its own name, so that pickle names it."""
    module, path = str(getattr(value, "__module__", None)), str(getattr(value, "__qualname__", "?")).split(".")
    found = functools.reduce(lambda owner, name: getattr(owner, name, None), path, sys.modules.get(module))
    return module != "__main__" and found is value


def _top(module: str) -> str:
    return module.partition(".")[0]


def _module_of(value: Any) -> str:
    """The module that defines a function, a class or the class of an object."""
    if isinstance(value, types.FunctionType):
        return str(value.__globals__.get("__name__", "?"))
    own = getattr(value, "__module__", None)
    return own if isinstance(own, str) else type(value).__module__


class _Walk:
    """One pass over all that a value consists of, which feeds a hash. What was seen before is hashed as its number."""

    def __init__(self, roots: set[str]):
        self.roots = roots
        self.found = hashlib.sha256()
        self.unknown: list[str] = []
        self.seen: dict[int, int] = {}
        self.kept: list[Any] = []  # so that no address is given to another object meanwhile

    def say(self, *words: Any) -> None:
        for word in words:
            text = repr(word).encode()
            self.found.update(len(text).to_bytes(8, "little") + text)

    def visit(self, value: Any) -> None:
        if value is None or value is Ellipsis or type(value) in (bool, int, float, complex, str, bytes):
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

    def _give_up(self, value: Any) -> None:
        name = getattr(value, "__qualname__", None) or f"a {type(value).__qualname__}"
        self.say("unknown", _module_of(value), name)
        self.unknown.append(f"{_module_of(value)}:{name}")

    def _visit(self, value: Any) -> None:  # noqa: PLR0912
        match value:
            case list() | tuple() if type(value) in (list, tuple):
                self.say(type(value).__name__, len(value))
                for each in value:
                    self.visit(each)
            case dict() if type(value) is dict:
                self.say("dict", len(value))
                for name, each in value.items():
                    self.visit(name)
                    self.visit(each)
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
                self._module(value)
            case types.MethodType() | staticmethod() | classmethod():
                self.say(type(value).__name__)
                self.visit(value.__func__)
                self.visit(getattr(value, "__self__", None))
            case property():
                self.say("property")
                for each in (value.fget, value.fset, value.fdel):
                    self.visit(each)
            case functools.cached_property():
                self.say("property")
                self.visit(value.func)
            case functools.partial():
                self.say("partial")
                for each in (value.func, value.args, value.keywords):
                    self.visit(each)
            case types.BuiltinFunctionType() if not isinstance(value.__self__, types.ModuleType | None):
                self.say("method", value.__name__)
                self.visit(value.__self__)
            case _:
                self._object(value)

    def _alone(self, value: Any) -> str:
        walk = _Walk(self.roots)
        walk.visit(value)
        self.unknown += walk.unknown
        return walk.found.hexdigest()

    def _array(self, value: Any) -> None:
        if isinstance(value, np.memmap):
            self.say("file", configuration(value))
            return
        if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
            value = jax.random.key_data(value)
        array = np.asarray(value)
        self.say("array", array.shape, str(array.dtype))
        if array.dtype.hasobject:
            self.visit(array.tolist())
        else:
            self.found.update(hashlib.sha256(np.ascontiguousarray(array).data).digest())

    def _is_known(self, module: str) -> bool:
        """Whether what a module defines is hashed by name alone; of an installed package, also by version."""
        top = _top(module)
        if top in LIBRARIES or (top in sys.stdlib_module_names and top != "__main__"):
            return True
        file = getattr(sys.modules.get(module), "__file__", None)
        if top in self.roots or file is None or not INSTALLED.intersection(Path(file).parts):
            return False
        self.say(str(getattr(sys.modules.get(top), "__version__", None)))
        return True

    def _function(self, function: types.FunctionType) -> None:
        module = _module_of(function)
        closure = [_contents(cell) for cell in function.__closure__ or ()]
        if self._is_known(module):
            self.say("function", module, function.__qualname__)
            if _is_imported(function):
                return
            wrapped = getattr(function, "__wrapped__", None)
            if wrapped is not None:  # by a decorator: what else it keeps, such as generated checks, is its own affair
                closure = [wrapped, *(each for each in closure if isinstance(each, PLAIN) or _is_of_jax(each))]
            self.visit(closure)
            return
        self.say("own function")
        self._code(function.__code__, function.__doc__)
        self.visit(function.__defaults__)
        self.visit(function.__kwdefaults__)
        self.visit(closure)
        for used in _used(function.__code__, function.__globals__):
            self.say(used.name)
            if used.missing:
                self.unknown.append(used.name)
            else:
                self.visit(used.value)

    def _code(self, code: types.CodeType, doc: str | None = None) -> None:
        constants = [None if at == 0 and each == doc else each for at, each in enumerate(code.co_consts)]
        arguments = code.co_argcount + code.co_kwonlyargcount
        self.say("code", code.co_code, code.co_names, code.co_varnames[:arguments], code.co_flags)
        self.say(code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount)
        self.say(getattr(code, "co_exceptiontable", b""), code.co_freevars, code.co_cellvars)
        self.visit(constants)

    def _class(self, cls: type) -> None:
        if self._is_known(cls.__module__):
            self.say("class", cls.__module__, cls.__qualname__)
            return
        self.say("own class", cls.__qualname__)
        self.visit(list(cls.__bases__))
        self.visit(type(cls))
        fields = vars(cls).get("__dataclass_fields__", {})
        parameters = vars(cls).get("__dataclass_params__")
        left_out = UNCOUNTED | set(fields)
        if parameters is not None:
            left_out |= GENERATED | ({"__init__"} if parameters.init else set())
        for name, value in sorted(vars(cls).items()):
            slot = inspect.ismemberdescriptor(value) or inspect.isgetsetdescriptor(value)
            slot |= name.startswith("__") and isinstance(
                value, PLAIN | list | tuple | dict | None
            )  # noted by pickle etc.
            if name not in left_out and not slot and type(value).__name__ != "_tuplegetter":
                self.say(name)
                self.visit(value)

    def _module(self, module: types.ModuleType) -> None:
        self.say("module", module.__name__)
        if not self._is_known(module.__name__):
            self._give_up(module)  # used as a value: anything in it may be

    def _object(self, value: Any) -> None:
        """An object: its class and what it holds, which is what pickle would keep of it."""
        kind = type(value)
        if _is_imported(value) and self._is_known(value.__module__):
            self.say("named", value.__module__, value.__qualname__)
        elif hasattr(value, "__wrapped__"):  # a function that a library has compiled
            held = [each for _, each in sorted(getattr(value, "__dict__", {}).items()) if callable(each)]
            self.say("wrapped", kind.__module__, kind.__qualname__)
            self.visit([value.__wrapped__, *held])
        elif dataclasses.is_dataclass(value):
            self.visit(kind)
            for field in dataclasses.fields(value):
                self.say(field.name)
                self.visit(getattr(value, field.name, None))
        elif isinstance(getattr(value, "__name__", None), str) and self._is_known(_module_of(value)):
            self.say("named", _module_of(value), value.__name__)
        else:
            try:
                reduced = value.__reduce_ex__(2)
            except Exception:  # whatever the object has in its way
                self._give_up(value)
                return
            self.visit(kind)
            parts = reduced if isinstance(reduced, tuple) else (reduced,)
            self.visit([list(each) if isinstance(each, Iterator) else each for each in parts])


def _is_of_jax(value: Any) -> bool:
    return isinstance(value, types.FunctionType) and _top(_module_of(value)) == "jax"


def _contents(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return None


class _Used(NamedTuple):
    """A global that code uses, with the attributes it takes from a module; missing if it cannot be found now."""

    name: str
    value: Any
    missing: bool = False


def _used(code: types.CodeType, scope: dict[str, Any]) -> Iterator[_Used]:
    """The globals that a function uses, and what it imports."""
    instructions = list(dis.get_instructions(code))
    for at, each in enumerate(instructions):
        if each.opname in ("LOAD_GLOBAL", "LOAD_NAME") and each.argval in scope:
            yield _attribute(each.argval, scope[each.argval], instructions[at + 1 :])
        elif each.opname == "IMPORT_NAME":
            yield from _imported(each.argval, scope, instructions[at + 1 :])
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _used(constant, scope)


def _attribute(name: str, value: Any, rest: list[dis.Instruction]) -> _Used:
    """`module.function`, not all of `module`."""
    for each in rest:
        if not isinstance(value, types.ModuleType) or each.opname not in ("LOAD_ATTR", "LOAD_METHOD"):
            break
        name = f"{name}.{each.argval}"
        if not hasattr(value, each.argval):
            return _Used(name, None, missing=True)
        value = getattr(value, each.argval)
    return _Used(name, value)


def _imported(name: str, scope: dict[str, Any], rest: list[dis.Instruction]) -> Iterator[_Used]:
    """What an import inside a function takes from a module; relative imports are tried from the nearest package on."""
    package = str(scope.get("__package__") or "")
    candidates = [name, *(_resolved("." * level + name, package) for level in range(1, package.count(".") + 2))]
    module = next((sys.modules[each] for each in candidates if each in sys.modules), None)
    if module is None:
        yield _Used(f"import {name}", None, missing=True)
        return
    taken = []
    for each in rest:
        if each.opname == "IMPORT_FROM":
            taken.append(each.argval)
        elif not each.opname.startswith("STORE_"):
            break
    if not taken:
        yield _attribute(name, module, [])
    for attribute in taken:
        yield _Used(f"{name}.{attribute}", getattr(module, attribute, None), missing=not hasattr(module, attribute))


def _resolved(name: str, package: str) -> str:
    try:
        return importlib.util.resolve_name(name, package)
    except ImportError:
        return ""
