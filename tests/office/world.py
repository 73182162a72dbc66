"""The office of Ana Rossi, product manager at a firm, on a Monday: what stands in her mailbox, calendar, drive, bank,
chat and address book. Each task begins with the same."""

from dataclasses import dataclass, fields

from tests.office.bank import Bank, Standing, Transfer
from tests.office.booking import Booked, Booking, Offer
from tests.office.calendar import Calendar, Event
from tests.office.chat import Channel, Chat, Post
from tests.office.contacts import Contact, Contacts
from tests.office.contract import Offered
from tests.office.drive import Document, Drive
from tests.office.mail import Mail, Mailbox

NOW = "2026-03-02T09:30"
TODAY = NOW[:10]
RENT, POWER, GYM = "DE89370400440532013000", "DE75512108001245126199", "CH9300762011623852957"
BEN_ACCOUNT, CARLA_ACCOUNT, PRINTER_ACCOUNT = (
    "DE12500105170648489890",
    "FR1420041010050500013M02606",
    "AT611904300234573201",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    contacts: Contacts
    mail: Mailbox
    calendar: Calendar
    drive: Drive
    bank: Bank
    chat: Chat
    booking: Booking

    def tools(self) -> Offered:
        """The tools of all services."""
        services = (self.contacts, self.mail, self.calendar, self.drive, self.bank, self.chat, self.booking)
        return tuple(tool for service in services for tool in service.tools())

    def reset(self) -> None:
        """Make it again what it is on that Monday. The tools stay: to make all of them takes longer than a task."""
        fresh = new_world()
        for field in fields(self):
            vars(getattr(self, field.name)).update(vars(getattr(fresh, field.name)))


def new_world() -> World:
    """The office as it is on that Monday at 9:30."""
    mail, drive = _mailbox(), _drive()
    mail.title_of = lambda key: drive.documents[key].title if key in drive.documents else key
    return World(
        contacts=_contacts(),
        mail=mail,
        calendar=_calendar(),
        drive=drive,
        bank=_bank(),
        chat=_chat(),
        booking=_booking(),
    )


def _contacts() -> Contacts:
    def of(number: int, name: str, mail: str, **more: str) -> Contact:
        return Contact(contact_id=f"p{number}", name=name, mail=mail, **more)

    return Contacts(
        of(1, "Ben Okafor", "ben@firm.example", chat="ben", account=BEN_ACCOUNT, note="design"),
        of(2, "Carla Meier", "carla@firm.example", chat="carla", account=CARLA_ACCOUNT, note="sales"),
        of(3, "Dimitri Petrov", "dimitri@firm.example", chat="dimitri", note="engineering"),
        of(4, "Emma Lindqvist", "emma@firm.example", chat="emma", note="my manager"),
        of(5, "Farid Haddad", "farid@partner.example", chat="farid", note="Partner AG, project lead"),
        of(6, "Grace Lin", "grace@partner.example", chat="grace", note="Partner AG, contracts"),
        of(7, "Hugo Print Shop", "orders@hugo-print.example", account=PRINTER_ACCOUNT),
        of(8, "Ines Duarte", "ines@customer.example", phone="+351 555 0101", note="our largest customer"),
        of(9, "Jonas Rossi", "jonas@home.example", account="DE27100777770209299700", note="brother"),
        of(10, "Dr. Keller", "praxis@keller.example", phone="+41 555 0199"),
        of(11, "Liv Hansen", "liv@firm.example", chat="liv", note="finance"),
        of(12, "Landlord Weber", "weber@homes.example", account=RENT),
    )


def _mailbox() -> Mailbox:
    def of(number: int, sender: str, subject: str, text: str, at: str, **more: object) -> Mail:
        fields: dict[str, object] = {"to": ("ana@firm.example",)} | more
        return Mail(mail_id=f"m{number}", sender=sender, subject=subject, text=text, at=at, **fields)  # type: ignore[arg-type]

    team = ("ana@firm.example", "ben@firm.example", "carla@firm.example", "dimitri@firm.example")
    return Mailbox(
        NOW,
        of(1, "Emma Lindqvist <emma@firm.example>", "Budget 2026",
           "Ana, I need the figures of the first quarter by Wednesday noon. A table of costs by month is enough. Emma",
           "2026-03-02T08:55", is_read=False),
        of(2, "Farid Haddad <farid@partner.example>", "Kick-off",
           "Hi Ana, could we move the kick-off to Thursday at 14:00? Grace would join, too. The agenda is at "
           "https://partner.example/kickoff . Best, Farid", "2026-03-02T08:40", is_read=False),
        of(3, "Hugo Print Shop <orders@hugo-print.example>", "Invoice 2026-118",
           "Dear Ms Rossi, for 500 flyers we charge EUR 184.50, payable by 10 March to AT61 1904 3002 3457 3201, "
           "reference 2026-118. Thank you!", "2026-03-01T16:20", is_read=False),
        of(4, "Ines Duarte <ines@customer.example>", "Delivery of the March release",
           "Hello Ana, when will the March release be with us? We have a board meeting on the 18th. Ines",
           "2026-03-01T11:02", is_read=False),
        of(5, "Ben Okafor <ben@firm.example>", "Lunch on Friday",
           "I paid for all of us at the Trattoria: your share is 23.40 EUR. You have my account. Ben",
           "2026-02-27T15:31"),
        of(6, "newsletter@trends.example", "Ten trends that you must not miss",
           "Read on at https://trends.example/10 or unsubscribe at https://trends.example/bye?u=ana",
           "2026-02-27T06:00", is_read=False),
        of(7, "Dimitri Petrov <dimitri@firm.example>", "Outage on Tuesday: minutes",
           "The queue was full from 10:12 to 10:47. Cause: a worker that hung. Actions: (1) alarm at 80 %, Dimitri; "
           "(2) message to customers, Ana; (3) second worker, Ben. All by 9 March.", "2026-02-26T17:10", to=team),
        of(8, "Stadtwerke <service@power.example>", "Your bill for February",
           "Electricity in February: EUR 61.20. It is taken from your account on 5 March.", "2026-02-26T09:00"),
        of(9, "Carla Meier <carla@firm.example>", "Offer for Customer SA",
           "Ana, can you check the prices in the document \"Offer Customer SA\" before I send it? Total should be "
           "12'400.",
           "2026-02-25T14:44"),
        of(10, "Jonas Rossi <jonas@home.example>", "Mum's birthday",
           "Shall we meet at mum's on Sunday the 15th at 12? I bring the cake; can you get flowers? J",
           "2026-02-25T20:05"),
        of(11, "Grace Lin <grace@partner.example>", "Contract, version 3",
           "Dear Ana, please find version 3 of the contract: clause 7 now says 30 days. Could you confirm by Friday? "
           "Grace",
           "2026-02-24T10:30"),
        of(12, "Praxis Keller <praxis@keller.example>", "Appointment",
           "Your appointment is on Thursday, 5 March at 8:15. Please answer if you can't come.", "2026-02-23T12:00"),
        of(13, "Liv Hansen <liv@firm.example>", "Travel costs",
           "Hi, your receipts for Milan are missing: hotel and train. Could you send me a list with the sums? Liv",
           "2026-02-23T09:12"),
        of(14, "prize@lucky.example", "You have won", "Click https://lucky.example/claim now!", "2026-02-22T03:00",
           folder="spam", is_read=False),
        of(15, "Ana Rossi <ana@firm.example>", "Re: Contract, version 2", "Dear Grace, 30 days would suit us. Ana",
           "2026-02-20T10:00", folder="sent", to=("grace@partner.example",), thread="m11"),
        of(16, "Emma Lindqvist <emma@firm.example>", "Holidays",
           "Approved: 6 to 17 July. Please put it into the team's calendar. Emma", "2026-02-19T10:00"),
        of(17, "Hotel Bellavista <stay@bellavista.example>", "Your receipt",
           "Two nights in Milan, 10 to 12 February: EUR 238.00. Thank you for your stay.", "2026-02-12T11:00",
           folder="archive"),
        of(18, "Rail <tickets@rail.example>", "Your ticket", "Bern to Milan and back, 10 and 12 February: EUR 96.00.",
           "2026-02-09T18:00", folder="archive"),
    )  # fmt: skip


def _calendar() -> Calendar:
    def of(number: int, title: str, begin: str, end: str, *guests: str, **more: str) -> Event:
        return Event(event_id=f"e{number}", title=title, begin=begin, end=end, guests=guests, **more)

    return Calendar(
        of(1, "Weekly", "2026-03-02T11:00", "2026-03-02T12:00", "ben@firm.example", "carla@firm.example",
           "dimitri@firm.example", place="Room Aare"),
        of(2, "Kick-off with Partner AG", "2026-03-04T10:00", "2026-03-04T11:30", "farid@partner.example",
           "ben@firm.example", place="online"),
        of(3, "Dentist", "2026-03-03T16:30", "2026-03-03T17:00"),
        of(4, "Budget review", "2026-03-05T15:00", "2026-03-05T16:00", by="emma@firm.example", place="Room Reuss"),
        of(5, "Dr. Keller", "2026-03-05T08:15", "2026-03-05T09:00"),
        of(6, "Design review", "2026-03-03T10:00", "2026-03-03T11:00", by="ben@firm.example"),
        of(7, "Trade fair", "2026-03-10T09:00", "2026-03-11T17:00", place="Milan"),
        of(8, "Focus", "2026-03-06T09:00", "2026-03-06T12:00"),
        busy={
            "ben@firm.example": (("2026-03-05T13:00", "2026-03-05T14:00"), ("2026-03-03T10:00", "2026-03-03T11:00")),
            "carla@firm.example": (("2026-03-05T09:00", "2026-03-05T12:00"),),
            "dimitri@firm.example": (("2026-03-03T14:00", "2026-03-03T15:30"),),
            "farid@partner.example": (("2026-03-05T09:00", "2026-03-05T13:00"),),
            "emma@firm.example": (("2026-03-03T09:00", "2026-03-03T12:00"),),
        },
    )  # fmt: skip


def _drive() -> Drive:
    def of(number: int, title: str, text: str, folder: str = "", **more: object) -> Document:
        return Document(doc_id=f"d{number}", title=title, text=text, folder=folder, **more)  # type: ignore[arg-type]

    return Drive(
        of(1, "Costs 2026", "month,item,eur\nJan,hosting,1200\nJan,travel,310\nFeb,hosting,1250\nFeb,travel,334\n"
           "Mar,hosting,1250\n", "Finance"),
        of(2, "Offer Customer SA", "Licence 9'000\nSupport 2'400\nTraining 1'200\nTotal 12'400\n", "Sales",
           by="carla@firm.example", shared={"ana@firm.example": "writer", "carla@firm.example": "owner"}),
        of(3, "Release plan March", "Freeze: 6 March. Tests: 9 to 12 March. Release: 13 March. Customers get it on "
           "16 March.", "Product", shared={"dimitri@firm.example": "writer", "ben@firm.example": "reader"}),
        of(4, "Contract Partner AG v3", "7. Either side may end this contract with a notice of 30 days.", "Legal",
           by="grace@partner.example", shared={"ana@firm.example": "reader", "grace@partner.example": "owner"}),
        of(5, "Interview notes", "Candidate A: strong in SQL. Candidate B: strong in design.", "HR"),
        of(6, "Ideas", "- dark mode\n- offline mode\n- import from spreadsheets\n", "Product"),
        of(7, "Minutes of 23 February", "Decided: price rises by 3 % in April. Open: new logo (Ben), survey (Carla).",
           "Product", comments=("Ben: logo by 12 March",)),
        of(8, "Salaries", "Ben 71000\nCarla 74000\nDimitri 80000\n", "HR"),
        of(9, "Survey results", "n=212; satisfied 81 %; wish no. 1: faster search; wish no. 2: dark mode", "Product",
           by="carla@firm.example", shared={"ana@firm.example": "reader", "carla@firm.example": "owner"}),
        of(10, "Old logo", "(picture)", "Product/old"),
        of(11, "Packing list", "passport, charger, samples, 200 flyers", "Private"),
        of(12, "Onboarding", "1. Accounts. 2. Laptop. 3. Lunch with the team. 4. Read \"Ideas\".", "HR"),
    )  # fmt: skip


def _bank() -> Bank:
    def of(number: int, day: str, name: str, account: str, amount: str, reference: str) -> Transfer:
        return Transfer(
            transfer_id=f"t{number}", day=day, name=name, account=account, amount=amount, reference=reference
        )  # fmt: skip

    return Bank(
        TODAY,
        "2834.10",
        (
            of(1, "2026-01-02", "Landlord Weber", RENT, "-950.00", "rent January"),
            of(2, "2026-01-05", "Stadtwerke", POWER, "-66.10", "electricity December"),
            of(3, "2026-01-28", "Firm AG", "CH5604835012345678009", "4100.00", "salary January"),
            of(4, "2026-02-02", "Landlord Weber", RENT, "-950.00", "rent February"),
            of(5, "2026-02-05", "Stadtwerke", POWER, "-64.80", "electricity January"),
            of(6, "2026-02-06", "Hugo Print Shop", PRINTER_ACCOUNT, "-92.00", "2026-071"),
            of(7, "2026-02-14", "Ben Okafor", BEN_ACCOUNT, "-18.50", "lunch"),
            of(8, "2026-02-26", "Firm AG", "CH5604835012345678009", "4100.00", "salary February"),
            of(9, "2026-02-27", "Trattoria", "IT60X0542811101000000123456", "-41.00", "dinner"),
        ),
        (
            Standing(order_id="o1", name="Landlord Weber", account=RENT, amount="950.00", day_of_month=2,
                     reference="rent"),
            Standing(order_id="o2", name="Gym", account=GYM, amount="49.00", day_of_month=15, currency="CHF"),
        ),
    )  # fmt: skip


def _chat() -> Chat:
    def post(by: str, at: str, text: str) -> Post:
        return Post(by=by, at=f"2026-{at}", text=text)

    return Chat(
        NOW,
        Channel(
            name="product",
            members=["ana", "ben", "carla", "dimitri"],
            posts=[
                post("dimitri", "02-27T16:00", "The build is green again."),
                post("ben", "02-27T16:20", "New icons are in the branch. Who looks at them?"),
                post("carla", "03-02T08:30", "Customer SA asks for the offer, can we send it today?"),
                post("dimitri", "03-02T09:05", "Tests of the release begin on 9 March, as planned."),
            ],
        ),
        Channel(
            name="general",
            members=["ana", "ben", "carla", "dimitri", "emma", "liv"],
            posts=[
                post("emma", "02-27T10:00", "Office is closed on 3 April."),
                post("liv", "03-02T08:00", "Please hand in receipts of February by Friday."),
            ],
        ),
        Channel(
            name="partner",
            members=["ana", "ben", "farid", "grace"],
            is_shared=True,
            posts=[
                post("farid", "02-26T11:00", "We have a first version of the interface."),
                post("grace", "03-02T09:10", "Contract v3 is in the drive, Ana."),
            ],
        ),
        Channel(name="lunch", members=["ana", "ben", "carla"], posts=[post("ben", "03-02T09:20", "Pizza at 12:15?")]),
        others=("mallory",),
    )


def _booking() -> Booking:
    def of(number: int, kind: str, name: str, place: str, at: str, price: str, **more: object) -> Offer:
        return Offer(offer_id=f"f{number}", kind=kind, name=name, place=place, at=at, price=price, **more)  # type: ignore[arg-type]

    return Booking(
        (
            of(1, "train", "EC 51", "Bern to Milan", "2026-03-09T15:34", "58.00", about="arrives 18:40"),
            of(2, "train", "EC 57", "Bern to Milan", "2026-03-09T17:34", "39.00", about="arrives 20:40"),
            of(3, "train", "EC 52", "Milan to Bern", "2026-03-11T18:20", "49.00", about="arrives 21:23"),
            of(4, "hotel", "Bellavista", "Milan", "2026-03-09", "238.00", about="two nights, breakfast",
               reviews=("Quiet, near the fair.", "Good coffee.")),
            of(5, "hotel", "Centrale", "Milan", "2026-03-09", "176.00", about="two nights",
               reviews=("Loud street.", "Fine for the price.")),
            of(6, "table", "Trattoria", "Bern", "2026-03-06T19:00", "0.00", about="four people",
               reviews=("The best gnocchi.",)),
            of(7, "table", "Sole", "Bern", "2026-03-06T19:30", "0.00", about="four people"),
            of(8, "room", "Room Aare", "office", "2026-03-05T14:00", "0.00", about="eight seats"),
            of(9, "room", "Room Reuss", "office", "2026-03-05T14:00", "0.00", about="twelve seats, screen"),
            of(10, "flight", "LX 1602", "Zurich to Milan", "2026-03-09T07:10", "142.00", currency="CHF",
               can_be_cancelled=False),
            of(11, "table", "Trattoria", "Bern", "2026-03-13T19:00", "0.00", about="two people"),
        ),
        (Booked(booking_id="b1", offer_id="f11", names=("Ana Rossi",), price="0.00", currency="EUR"),),
    )  # fmt: skip
