"""A griffe extension: the signature of an equinox module is that of a dataclass, read from its fields."""

import ast
from typing import Any

from griffe import Attribute, Class, Expr, Extension, Function, Parameter, ParameterKind, Parameters

FIELD_MAKERS = ("eqx.field", "hyperparameter")


def _default(value: Any) -> str | None:
    """The default of a field, None if it has none; `hyperparameter(default=0.0)` and `eqx.field(...)` state theirs."""
    if value is None:
        return None
    call = ast.parse(str(value), mode="eval").body
    if not isinstance(call, ast.Call) or ast.unparse(call.func) not in FIELD_MAKERS:
        return str(value)
    return next((ast.unparse(each.value) for each in call.keywords if each.arg == "default"), None)


class ModuleSignatures(Extension):
    """Gives every class that derives from a module an `__init__` with its annotated fields as parameters."""

    def on_class(self, *, cls: Class, **_: Any) -> None:
        bases = {str(base) for base in cls.bases}
        if "__init__" in cls.members or not bases & {"eqx.Module", "CreditRule", "Learner"}:
            return
        fields = [each for each in cls.members.values() if isinstance(each, Attribute) and each.annotation is not None]
        if not fields:
            return
        parameters: list[Parameter] = [Parameter("self", kind=ParameterKind.positional_or_keyword)]
        for each in fields:
            annotation: str | Expr | None = each.annotation
            kind = ParameterKind.positional_or_keyword
            parameters.append(Parameter(each.name, annotation=annotation, kind=kind, default=_default(each.value)))
        init = Function("__init__", parameters=Parameters(*parameters), returns="None")
        cls.set_member("__init__", init)
