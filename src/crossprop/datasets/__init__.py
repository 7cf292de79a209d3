"""Data sets: bundled with installed packages, or downloaded once and checked by hash."""

from crossprop.datasets.base import DataSet as DataSet
from crossprop.datasets.cifar_files import CIFAR10
from crossprop.datasets.cifar_files import cifar10 as cifar10
from crossprop.datasets.embedded import digits as digits
from crossprop.datasets.embedded import mnist5k as mnist5k
from crossprop.datasets.fetching import Archive
from crossprop.datasets.mnist_files import FASHION, MNIST
from crossprop.datasets.mnist_files import fashion_mnist as fashion_mnist
from crossprop.datasets.mnist_files import mnist as mnist
from crossprop.datasets.table_files import COVERTYPE, ELEC2
from crossprop.datasets.table_files import covertype as covertype
from crossprop.datasets.table_files import elec2 as elec2

ARCHIVES: dict[str, Archive] = {each.name: each for each in (MNIST, FASHION, CIFAR10, ELEC2, COVERTYPE)}
"""The data sets that `crossprop data fetch` gets, by name."""
