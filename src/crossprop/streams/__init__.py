"""The streams, one a file, and the names they go by on the command line."""

from crossprop.streams.arrays import Arrays as Arrays
from crossprop.streams.base import Pool as Pool
from crossprop.streams.base import PoolStream as PoolStream
from crossprop.streams.base import Sample as Sample
from crossprop.streams.base import Stream as Stream
from crossprop.streams.geoff import Geoff as Geoff
from crossprop.streams.iterator import Iterator as Iterator
from crossprop.streams.label_shift import LabelShift as LabelShift
