"""The experiments that come with the package: papers, each with its claims, studies and the arena."""

from crossprop.experiments.papers import read_paper
from crossprop.library import dohare2024, permuted, sutton1992, veeriah2017

PAPERS = {
    "veeriah2017": veeriah2017.PAPER,
    "sutton1992": sutton1992.PAPER,
    "mahmood2013": read_paper("mahmood2013"),
    "dohare2024": dohare2024.PAPER,
    "elsayed2024": read_paper("elsayed2024", permuted.MEASURES),
}
"""The papers that can be rerun, by name; the first one is the crossprop paper."""
