"""A griffe extension: the signature of an equinox module is that of a dataclass, with the fields of its bases."""

import ast
import dataclasses
import inspect
from importlib import import_module
from typing import Any

import equinox as eqx
from griffe import Class, Extension, Function, Parameter, ParameterKind, Parameters


def _annotations(module: type) -> dict[str, str]:
    """The annotations of all fields, as they are written in the class and its bases."""
    written: dict[str, str] = {}
    for cls in reversed([each for each in module.__mro__ if each.__module__.startswith("crossprop.")]):
        (definition,) = ast.parse(inspect.getsource(cls)).body
        assert isinstance(definition, ast.ClassDef)
        for line in definition.body:
            if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
                written[line.target.id] = ast.unparse(line.annotation)
    return written


class ModuleSignatures(Extension):
    """Gives every class that is a module an `__init__` with its fields as parameters."""

    def on_class(self, *, cls: Class, **_: Any) -> None:
        if "__init__" in cls.members or not cls.bases:
            return
        module = getattr(import_module(cls.module.path), cls.name, None)
        if not (isinstance(module, type) and issubclass(module, eqx.Module)):
            return
        given = [field for field in dataclasses.fields(module) if field.init]
        fields = sorted(given, key=lambda field: bool(field.kw_only))
        if not fields:
            return
        annotations = _annotations(module)
        parameters: list[Parameter] = [Parameter("self", kind=ParameterKind.positional_or_keyword)]
        for field in fields:
            kind = ParameterKind.keyword_only if field.kw_only else ParameterKind.positional_or_keyword
            default = None if field.default is dataclasses.MISSING else repr(field.default)
            parameters.append(Parameter(field.name, annotation=annotations.get(field.name), kind=kind, default=default))
        init = Function("__init__", parameters=Parameters(*parameters), returns="None")
        cls.set_member("__init__", init)
