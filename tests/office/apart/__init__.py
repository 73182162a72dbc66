"""A further set of everyday tasks, by what they are about."""

from tests.office.apart.bills import BILLS
from tests.office.apart.dates import DATES
from tests.office.apart.letters import LETTERS
from tests.office.apart.papers import PAPERS
from tests.office.apart.trips import TRIPS

APART = (*LETTERS, *DATES, *PAPERS, *BILLS, *TRIPS)
