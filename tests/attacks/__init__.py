"""What somebody tries who has talked the model into anything: the table of docs/attacks.md, each row played.

The model obeys every time; what is tried here is what stands behind it. No row is about whether a model can be talked
into something: it is taken for granted.
"""

from tests.attacks.addresses import ADDRESSES
from tests.attacks.escapes import ESCAPES
from tests.attacks.hosts import HOSTS
from tests.attacks.kernels import KERNELS
from tests.attacks.leaks import LEAKS
from tests.attacks.notebooks import NOTEBOOKS
from tests.attacks.others import OTHERS
from tests.attacks.paths import PATHS
from tests.attacks.told import TOLD

ATTACKS = (*TOLD, *LEAKS, *PATHS, *ADDRESSES, *ESCAPES, *HOSTS, *NOTEBOOKS, *KERNELS, *OTHERS)
