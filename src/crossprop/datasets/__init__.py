"""Data sets: bundled with installed packages, or downloaded once and checked by hash."""

from collections.abc import Callable

from crossprop.datasets.atari import ATARI
from crossprop.datasets.base import DataSet as DataSet
from crossprop.datasets.cifar_files import CIFAR10
from crossprop.datasets.cifar_files import cifar10 as cifar10
from crossprop.datasets.embedded import digits as digits
from crossprop.datasets.embedded import mnist5k as mnist5k
from crossprop.datasets.fetching import Archive
from crossprop.datasets.imagenet_files import imagenet32 as imagenet32
from crossprop.datasets.mnist_files import FASHION, MNIST
from crossprop.datasets.mnist_files import fashion_mnist as fashion_mnist
from crossprop.datasets.mnist_files import mnist as mnist
from crossprop.datasets.table_files import COVERTYPE, ELEC2
from crossprop.datasets.table_files import covertype as covertype
from crossprop.datasets.table_files import elec2 as elec2
from crossprop.datasets.temperature_files import TEMPERATURES
from crossprop.datasets.temperature_files import temperatures as temperatures

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
