"""Everyday tasks of an ordinary Monday, by what they are about."""

from tests.office.everyday.documents import DOCUMENTS
from tests.office.everyday.mail import MAIL
from tests.office.everyday.meetings import MEETINGS
from tests.office.everyday.money import MONEY
from tests.office.everyday.talk import TALK

EVERYDAY = (*MAIL, *MEETINGS, *DOCUMENTS, *MONEY, *TALK)
