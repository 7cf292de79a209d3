"""crossprop: the instrument for learning features online.

Write a learner once, as a pure update on one example; run thousands of complete online runs of it;
see what its features did.
"""

from types import ModuleType as _ModuleType

from crossprop import datasets as datasets
from crossprop import metrics as metrics
from crossprop import objectives as objectives
from crossprop import optimizers as optimizers
from crossprop import oracle as oracle
from crossprop import plot as plot
from crossprop import probes as probes
from crossprop import replacements as replacements
from crossprop._version import __version__ as __version__
from crossprop.execution import use_compilation_cache as use_compilation_cache
from crossprop.experiments import compare as compare
from crossprop.experiments import logspace as logspace
from crossprop.experiments import open_evaluation as open_evaluation
from crossprop.experiments import open_sweep as open_sweep
from crossprop.experiments import sweep as sweep
from crossprop.learners import TD as TD
from crossprop.learners import TIDBD as TIDBD
from crossprop.learners import Backprop as Backprop
from crossprop.learners import BackpropReplay as BackpropReplay
from crossprop.learners import Best as Best
from crossprop.learners import Correlation as Correlation
from crossprop.learners import CreditRule as CreditRule
from crossprop.learners import Crossprop as Crossprop
from crossprop.learners import CrosspropApprox as CrosspropApprox
from crossprop.learners import CrosspropSum as CrosspropSum
from crossprop.learners import Foresight as Foresight
from crossprop.learners import Frozen as Frozen
from crossprop.learners import Hindsight as Hindsight
from crossprop.learners import Learner as Learner
from crossprop.learners import Normalize as Normalize
from crossprop.learners import Outcome as Outcome
from crossprop.learners import Scheduled as Scheduled
from crossprop.learners import SwiftTD as SwiftTD
from crossprop.learners import Trivial as Trivial
from crossprop.learners import TrueOnlineTD as TrueOnlineTD
from crossprop.learners import Unsupervised as Unsupervised
from crossprop.learners import Whiten as Whiten
from crossprop.network import Network as Network
from crossprop.passes import live as live
from crossprop.passes import predict as predict
from crossprop.replacements import ContinualReplacement as ContinualReplacement
from crossprop.replacements import GenerateAndTest as GenerateAndTest
from crossprop.replacements import PeriodicReplacement as PeriodicReplacement
from crossprop.replacements import RandomReplacement as RandomReplacement
from crossprop.replacements import ReDo as ReDo
from crossprop.replacements import Replacement as Replacement
from crossprop.running import run as run
from crossprop.saving import load as load
from crossprop.saving import save as save
from crossprop.seeds import keys as keys
from crossprop.streams import Arrays as Arrays
from crossprop.streams import Atari as Atari
from crossprop.streams import ClassPairs as ClassPairs
from crossprop.streams import Geoff as Geoff
from crossprop.streams import Iterator as Iterator
from crossprop.streams import LabelShift as LabelShift
from crossprop.streams import PermutedInputs as PermutedInputs
from crossprop.streams import RandomLabels as RandomLabels
from crossprop.streams import RandomWalk as RandomWalk
from crossprop.streams import SlowlyChanging as SlowlyChanging
from crossprop.streams import Stream as Stream
from crossprop.streams import TraceConditioning as TraceConditioning
from crossprop.streams import Traced as Traced
from crossprop.streams import TracePatterning as TracePatterning
from crossprop.streams import Tracking as Tracking
from crossprop.streams import discounted as discounted
from crossprop.streams import read_table as read_table

_MODULES = ("datasets", "metrics", "optimizers", "oracle", "plot", "probes", "replacements")


def __dir__() -> list[str]:
    return [name for name, value in globals().items() if name in _MODULES or not isinstance(value, _ModuleType)]
