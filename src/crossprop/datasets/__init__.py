"""Data sets: bundled with installed packages, or downloaded once and checked by hash."""

from collections.abc import Callable

from crossprop.datasets.atari import ATARI
from crossprop.datasets.base import DataSet as DataSet
from crossprop.datasets.fetching import Archive
from crossprop.datasets.imagenet_files import imagenet32 as imagenet32
from crossprop.datasets.images import CIFAR10, FASHION, MNIST
from crossprop.datasets.images import cifar10 as cifar10
from crossprop.datasets.images import digits as digits
from crossprop.datasets.images import fashion_mnist as fashion_mnist
from crossprop.datasets.images import mnist as mnist
from crossprop.datasets.images import mnist5k as mnist5k
from crossprop.datasets.tables import COVERTYPE, ELEC2, TEMPERATURES
from crossprop.datasets.tables import covertype as covertype
from crossprop.datasets.tables import elec2 as elec2
from crossprop.datasets.tables import temperatures as temperatures

DATA_SETS: dict[str, Callable[[], DataSet]] = {
    "digits": digits,
    "mnist5k": mnist5k,
    "mnist": mnist,
    "fashion": fashion_mnist,
    "cifar10": cifar10,
    "elec2": elec2,
    "covertype": covertype,
}
"""The data sets by name; each is a stream of that name, too."""
RECORDED = ("elec2", "covertype")
"""Data sets whose examples keep the order in which they were recorded."""
ARCHIVES: dict[str, Archive] = {
    each.name: each for each in (MNIST, FASHION, CIFAR10, ELEC2, COVERTYPE, TEMPERATURES, ATARI)
}
"""The data sets that `crossprop data fetch` gets, by name."""
