"""Data sets: bundled with installed packages, or downloaded once and checked by hash."""

from crossprop.datasets.base import DataSet as DataSet
from crossprop.datasets.embedded import digits as digits
from crossprop.datasets.embedded import mnist5k as mnist5k
from crossprop.datasets.mnist_files import mnist as mnist
