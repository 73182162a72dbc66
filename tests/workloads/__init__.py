"""What people ask Ozzie for on an ordinary day, and how often it asks them back.

How the mix was chosen: for each of four kinds of users, 18 things that somebody at that work would ask in a week of an
assistant that has the tools of today. What needs a tool that is not there yet (running code, the web) is left out, and
so is what needs none, such as a plain question about Python, which would only raise the share of what runs unasked.
Scientists and analysts mostly look, compare and reckon; engineers change files in every third task; operators look for
what went wrong, and change little. It is a judgement and no measurement: whoever mostly has files changed is asked in
most tasks.
"""

from tests.workloads.analyst import ANALYST
from tests.workloads.engineer import ENGINEER
from tests.workloads.operator import OPERATOR
from tests.workloads.scientist import SCIENTIST

WORKLOADS = (*SCIENTIST, *ANALYST, *ENGINEER, *OPERATOR)
