"""`crossprop reproduce`: reruns papers, redraws their figures, decides their claims, and writes a report on each."""

from crossprop.reproduce.rerun import PAPERS, Rerun
from crossprop.reproduce.veeriah2017 import Reproduction

__all__ = ["PAPERS", "Reproduction", "Rerun"]
