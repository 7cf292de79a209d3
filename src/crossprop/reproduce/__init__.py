"""`crossprop reproduce`: reruns papers, redraws their figures, decides their claims, and writes a report on each."""

from crossprop.reproduce.commands import PAPERS, PARTS, Reproduction, Rerun

__all__ = ["PAPERS", "PARTS", "Reproduction", "Rerun"]
