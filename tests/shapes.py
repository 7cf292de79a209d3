"""The type checker that the tests run the package under: array shapes are checked, and an int will do for a float."""

from beartype import BeartypeConf, beartype

checked = beartype(conf=BeartypeConf(is_pep484_tower=True))
