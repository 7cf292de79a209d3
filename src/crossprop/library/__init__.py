"""The experiments that come with the package: papers, each with its claims, studies and the arena."""

from crossprop.library import dohare2024, elsayed2024, mahmood2013, sutton1992, veeriah2017

PAPERS = {
    "veeriah2017": veeriah2017.PAPER,
    "sutton1992": sutton1992.PAPER,
    "mahmood2013": mahmood2013.PAPER,
    "dohare2024": dohare2024.PAPER,
    "elsayed2024": elsayed2024.PAPER,
}
"""The papers that can be rerun, by name; the first one is the crossprop paper."""
