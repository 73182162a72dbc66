"""Secrets are taken out of what tools give back, and ordinary data is left alone.

The secrets here are put together when the tests run: none stands in this file, where others would look for them.
"""

import base64
import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ozzie_server_ext.domain import redaction
from ozzie_server_ext.domain.redaction import SHORTEST, naming, redact, redact_text

_MIXED = "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7"


def made(length: int, *, of: str = _MIXED) -> str:
    """What could be a key: the same in every run."""
    return (of * (length // len(of) + 1))[:length]


HEX = "0123456789abcdef"
AWS_ID = "AKIA" + made(16, of="ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")
JWT = ".".join(
    base64.urlsafe_b64encode(part.encode()).decode().rstrip("=")
    for part in ('{"alg":"HS256","typ":"JWT"}', '{"sub":"1234567890","name":"Ann"}', made(32))
)
DASHES = "-" * 5
PEM = (
    f"{DASHES}BEGIN RSA PRIVATE KEY{DASHES}\n{made(64)}\n{made(64)}\n{made(20)}==\n{DASHES}END RSA PRIVATE KEY{DASHES}"
)
PGP = PEM.replace("RSA PRIVATE KEY", "PGP PRIVATE KEY BLOCK").replace("\n", "\nVersion: 1 (GNU/Linux)\n\n", 1)

KEYS = {
    "private key": [PEM, PEM.replace("\n", "\\n"), PEM.replace("RSA ", "OPENSSH "), PEM.replace("RSA ", ""), PGP],
    "AWS key": [AWS_ID, "ASIA" + AWS_ID[4:]],
    "GitHub token": ["ghp_" + made(36), "gho_" + made(36), "ghs_" + made(36), "github_pat_" + made(82)],
    "GitLab token": ["glpat-" + made(20), "gldt-" + made(20), "glrt-" + made(20)],
    "Slack token": ["xoxb-" + "123456789012-" * 2 + made(24), "xoxp-" + made(30), "xapp-" + "1-A0-" + made(24)],
    "Google key": ["AIza" + made(35), "ya29." + made(60), "GOCSPX-" + made(28)],
    "API key": [
        "sk-" + made(48),
        "sk-" + made(32, of=HEX),
        "sk-ant-" + "api03-" + made(80),
        "sk-proj-" + made(40) + "_" + made(10),
        "sk-or-" + "v1-" + made(64, of=HEX),
        "gsk_" + made(52),
        "xai-" + made(80),
        "hf_" + made(34),
        "pplx-" + made(48),
        "sk_live_" + made(24),
        "rk_test_" + made(24),
        "whsec_" + made(32),
        "SG." + made(22) + "." + made(43),
        "npm_" + made(36),
        "pypi-" + made(90),
        "dop_v1_" + made(64, of=HEX),
        "shpat_" + made(32, of=HEX),
        "dapi" + made(32, of=HEX),
        "hvs." + made(90),
        "lin_api_" + made(40),
        "12345678:AA" + made(33),
    ],
    "web token": [JWT],
}
KEY_SAMPLES = [(kind, key) for kind, keys in KEYS.items() for key in keys]

PLACED = [
    ("postgres://ann:{}@db.example.org/app", "hunter2", "password"),
    ("https://:{}@example.org", "p:ss;w0rd", "password"),
    ("amqp://guest:{}@localhost:5672//", "guest", "password"),
    ("Authorization: Bearer {}", made(20), "token"),
    ('-H "authorization: token {}"', made(40, of=HEX), "token"),
    ('{{"Authorization": "Basic {}"}}', base64.b64encode(b"Ann:Secret").decode(), "token"),
    ("curl -H 'Bearer {}'", made(24), "token"),
    ("password={}", "Hunter2hunter2", "password"),
    ('DB_PASSWORD: "{}"', "c0rrect-h0rse", "password"),
    ("export PGPASSWORD='{}'", "s3cr3t!pass", "password"),
    ('"passwd" => "{}"', "Tr0ub4dor&3".replace("&", ""), "password"),
    ("aws_secret_access_key = {}", made(40), "secret"),
    ("AWS_SECRET_ACCESS_KEY={}", made(20) + "/" + made(19), "secret"),
    ("client_secret: {}", made(32), "secret"),
    ("api_key='{}'", made(32, of=HEX), "secret"),
    ("X-Api-Key: {}", made(32), "secret"),
    ("AccountKey={}", made(86) + "==", "secret"),
    ("access_token={}&expires_in=3600", made(40), "secret"),
    ("?token={}", made(32), "token"),
    ("machine x login y password {}", "abc12345x", "password"),
    ('{{\\"password\\": \\"{}\\"}}', "Hunter2hunter2", "password"),
    ("SESSION_TOKEN = `{}`", made(40), "secret"),
    ('DB_PASSWORD="{}"', "aB3$dE6gH9jK", "password"),
    ("DB_PASSWORD={}", "aB3$dE6gH9jK", "password"),
    ("DB_PASSWORD='{}'", "kJ8(mN2)pQ5!", "password"),
    ('password="{}"', "SuperSecret!", "password"),
    ('password: "{}"', "Abcd1234$Efgh5678xyz", "password"),
    ('password: "{}"', 'a\\"bcdefg1234', "password"),
    ('password = "{}"', made(400), "password"),
    ('password = "{}\nnext', "of-one-line-4711 and its rest", "password"),
    ("password = {}\nnext", made(400), "password"),
    ("postgres://ann:{}@db", "s3cret#1", "password"),
    ("postgres://ann:{}@db/app", "s3/cret", "password"),
    ("mysql://u:{}@h", "a$b1cd", "password"),
    ("postgres://ann:{}@db", "p@ss/w0rd#1", "password"),
    ("https://ann:{}@npm.example.org/@scope/package", "hunter2", "password"),
    ("pip install git+https://ann:{}@github.com/a/b@v2.0", "hunter2", "password"),
    ('DATABASE_PASSWORD         = "{}"', "Hunter2hunter2", "password"),
    ('passwords = ["{}"]', "Hunter2hunter2", "password"),
    ("TOKEN_URL=https://h/cb?api_key={}", made(32, of=HEX), "secret"),
    ('os.environ["MISTRAL_API_KEY"] = "{}"', made(32, of=HEX), "secret"),
    ('os.environ.setdefault("API_KEY", "{}")', made(32, of=HEX), "secret"),
    ('api_key: str = "{}"', made(32, of=HEX), "secret"),
    ("api_key: str | None = '{}'", made(32, of=HEX), "secret"),
    ('api_key = f"{}"', made(32, of=HEX), "secret"),
    ("api_key = rb'{}'", made(32, of=HEX), "secret"),
    ("API_KEY ?= {}", made(32, of=HEX), "secret"),
    ("<password>{}</password>", "Hunter2hunter2", "password"),
    ("mysql --password {} app", "Hunter2hunter2", "password"),
    ('{{"name": "DB_PASSWORD", "value": "{}"}}', "Hunter2hunter2", "password"),
    ("- name: DB_PASSWORD\n  value: {}\n", "Hunter2hunter2", "password"),
]

SHA256 = hashlib.sha256(b"x").hexdigest()
SHA1 = hashlib.sha1(b"x").hexdigest()
UUID = "550e8400-e29b-41d4-a716-446655440000"

ORDINARY = [
    "",
    "The quick brown fox jumps over the lazy dog.",
    "Enter your password: then press Enter.",
    "Password must have 8 characters, one digit and a capital.",
    "The token expired at 2026-01-31T12:00:00Z.",
    SHA256,
    SHA1,
    f"sha256:{SHA256}",
    f"commit {SHA1}\nAuthor: Ann <ann@example.org>",
    f"--hash=sha256:{SHA256}",
    UUID,
    f"id: {UUID}",
    "01JD5Z6X8Q0W3E4R5T6Y7U8I9O",
    "data:image/png;base64," + base64.b64encode(bytes(range(256)) * 40).decode(),
    "3.14159265358979323846264338327950288",
    "4111 1111 1111 1111",
    "token = next(tokens)",
    "token = tokenizer.decode(ids2)",
    "token = settings.API_TOKEN_V2",
    "for token in tokens: count[token] += 1",
    "password = getpass.getpass('Password: ')",
    'password = os.environ["DB_PASSWORD_2"]',
    "password: ${DB_PASSWORD1}",
    "password = %(password1)s",
    "password = user.password1",
    "def login(password: str = '') -> Token1: ...",
    "api_key=YOUR_API_KEY",
    "api_key: <your key 1234567890>",
    "Authorization: Bearer $TOKEN1234567890",
    "Authorization: Bearer {token}",
    "Bearer authentication is described in RFC 6750",
    "secret_name: projects/12345/secrets/database",
    "token_file=/run/secrets/abc123def456ghi7",
    "token: /var/run/secrets/kubernetes.io/serviceaccount/token1",
    "max_tokens=16384, total_tokens: 123456789012345678",
    f"password_hash: {SHA256}",
    "password_changed_at: 2026-01-31T12:00:00",
    "next_page_token=CAUQAA1234567890abcdefgh",
    "nextPageToken: CAUQAA1234567890abcdefgh",
    f"secret_id={UUID}",
    f"token_count: {made(20)}",
    "https://example.org:8080/users/ann@example.org",
    "https://example.org:8080?mail=ann@example.org",
    "git@github.com:ann/project.git",
    "ssh://git@github.com/ann/project.git",
    "http://[::1]:8888/lab",
    "postgres://{user}:{password}@{host}/{name}",
    "postgres://user:pass@localhost/db and https://user:password@host, logged as https://user:***@host",
    "password = password1",
    "the bearer SubjectConfirmationData comes from there",
    'class="sk-toggleable__content sk-estimator-doc-link"',
    "task-3f2a9c1e7b5d4f6a8091a2b3c4d5e6f7",
    "ghp_short and sk-short and AKIASHORT",
    "xoxo-hugs-and-kisses-from-everyone",
    f"{DASHES}BEGIN CERTIFICATE{DASHES}\n{made(64)}\n{DASHES}END CERTIFICATE{DASHES}",
    f"{DASHES}BEGIN PUBLIC KEY{DASHES}\n{made(64)}\n{DASHES}END PUBLIC KEY{DASHES}",
    f'if key.startswith("{DASHES}BEGIN RSA PRIVATE KEY{DASHES}"):\n    raise ValueError("This is a private key")',
    "eyJ is how a web token begins, as in eyJabc.def",
    "password = user.password_1",
    "db_password = var.db_password_2024",
    "token = tokens_2024_train_split",
    "token: 2024-01-31T12:00:00Z",
    '"token": "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48"',
    "secret: arn:aws:secretsmanager:eu-west-1:123456789012:secret:app-a1b2",
    'names = ["password", "Username1x"]',
    "password: ann1@example.org",
    "postgres://ann:$PGPASS1@db",
    'password = f"{user}-{number1}"',
    '<span class="token">abc1def2ghi3jkl4mno</span>',
    f"docker://nginx:1.25@sha256:{SHA256}",
    "größe=数据, пароль: 12345678а",
    "İstanbul'da hava 12 derece",
    "secretary: Ann Miller, Room 1234567890",
    "tokenizer: bert-base-uncased-2048-v12x",
]


@pytest.mark.parametrize(("kind", "key"), KEY_SAMPLES)
@pytest.mark.parametrize("around", ["{}", "the key is {}, I think", '["{}"]', "KEY={}", "a\\n{}", "{}\nnext line"])
def test_a_key_of_a_known_shape_is_taken_out_and_what_stands_around_it_stays(kind: str, key: str, around: str) -> None:
    assert redact_text(around.format(key)) == around.format(f"[redacted: {kind}]")


@pytest.mark.parametrize(("around", "value", "kind"), PLACED)
def test_a_value_that_its_place_gives_away_is_taken_out(around: str, value: str, kind: str) -> None:
    assert redact_text(around.format(value)) == around.format(f"[redacted: {kind}]")


@pytest.mark.parametrize(
    "chained",
    [
        "password=abcDEF123456=aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        "password=hunter2Abc!=password=hunter3Abc!=aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    ],
)
def test_a_value_that_is_the_name_of_the_next_hides_none(chained: str) -> None:
    assert "wJalrXUtnFEMI" not in redact_text(chained)


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_is_left_as_it_is(text: str) -> None:
    assert redact_text(text) == text


def test_there_are_enough_samples_of_both() -> None:
    assert len(KEY_SAMPLES) + len(PLACED) >= 40
    assert len(ORDINARY) >= 40


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"password": "x"}, {"password": "[redacted: password]"}),
        ({"dbPassword": "only words here"}, {"dbPassword": "[redacted: password]"}),
        ({"passwords": ["a", "b"]}, {"passwords": ["[redacted: password]"] * 2}),
        ({"client_secret": "abcdefghijkl"}, {"client_secret": "[redacted: secret]"}),
        ({"accessToken": made(20)}, {"accessToken": "[redacted: secret]"}),
        ({"token": made(24)}, {"token": "[redacted: token]"}),
        ({"Authorization": "Basic QW5uOlNlY3JldA=="}, {"Authorization": "Basic [redacted: token]"}),
        ({"name": "DB_PASSWORD", "value": "abc"}, {"name": "DB_PASSWORD", "value": "[redacted: password]"}),
        ([{"deep": [{"x": "ghp_" + made(36)}]}], [{"deep": [{"x": "[redacted: GitHub token]"}]}]),
        ({"ghp_" + made(36): 1}, {"[redacted: GitHub token]": 1}),
    ],
)
def test_in_json_the_names_of_fields_tell_too(value: Any, expected: Any) -> None:
    assert redact(value) == expected


def test_two_names_that_are_secrets_do_not_become_one() -> None:
    value: Any = {"ghp_" + made(36): 1, "ghp_" + made(40): 2, "[redacted: GitHub token] 2": 3}

    assert sorted(json.dumps(item) for item in dict(redact(value)).values()) == ["1", "2", "3"]  # pyright: ignore[reportArgumentType, reportCallIssue]


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        12345678,
        {"password": ""},
        {"password": None},
        {"password": 3},
        {"properties": {"password": {"type": "string"}}},
        {"token": "hello", "lemma": "hello"},
        {"tokens": ["a1", "b2"]},
        {"api_key": "OPENAI_API_KEY"},
        {"api_key_env": "OPENAI_API_KEY_2"},
        {"secret": "no"},
        {"secret": "a surprise for Ann"},
        {"nextPageToken": made(24)},
        {"token_count": "1234"},
        {"hash": SHA256, "id": UUID},
        {"password_hash": SHA256},
        {"PasswordLastUsed": "2016-09-08T21:47:36Z"},
        {"authorization": "${TOKEN}"},
        {"authorization": "Bearer ${TOKEN}"},
        {"properties": {"password": "string"}},
        {"password": "The password of the user"},
        {"secret": "arn:aws:secretsmanager:eu-west-1:1:secret:a"},
        {"token": "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48"},
        {"name": "colour", "value": "green"},
    ],
)
def test_ordinary_json_is_left_as_it_is(value: Any) -> None:
    assert redact(value) == value


def test_a_secret_that_is_known_is_found_wherever_it_stands_the_longest_first() -> None:
    known = ["correct horse", "correct horse battery staple", "short"]

    assert redact({"x": "my correct horse battery staple, short"}, known) == {"x": "my [redacted: known secret], short"}


@given(st.text(alphabet="://@p=#\"'\\-. \nBEG1aA", max_size=SHORTEST - 1))
def test_no_shape_of_a_secret_is_shorter_than_what_is_looked_at(text: str) -> None:
    padded = f"{text}{' ' * SHORTEST}"

    assert redact_text(padded) == padded
    assert redact_text(text) == text


def test_the_shortest_shape_is_found() -> None:
    assert redact_text("://:q@") == "://:[redacted: password]@"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
SECRETS = st.sampled_from([key for _, key in KEY_SAMPLES])
PIECES = st.lists(
    st.sampled_from([key for _, key in KEY_SAMPLES] + [around.format(value) for around, value, _ in PLACED] + ORDINARY)
    | st.text(max_size=20),
    max_size=6,
)


@given(PIECES, st.sampled_from([" ", "\n", ", ", '"', "="]))
def test_what_was_redacted_stays_as_it_is(pieces: list[str], between: str) -> None:
    once = redact_text(between.join(pieces))

    assert redact_text(once) == once


@given(JSON)
def test_json_keeps_its_form(value: Any) -> None:
    def form(item: Any) -> Any:
        if isinstance(item, dict):
            return [form(each) for each in item.values()]
        return [form(each) for each in item] if isinstance(item, list) else type(item)

    assert form(redact(value)) == form(value)
    json.dumps(redact(value))


@given(SECRETS, st.text(max_size=200), st.text(max_size=200))
def test_no_key_comes_through_between_any_words(key: str, before: str, after: str) -> None:
    assert key not in redact_text(f"{before} {key} {after}")
    assert key not in json.dumps(redact({"a": [f"{before}\n{key}\n{after}"]}))


@pytest.mark.parametrize(("kind", "key"), [(kind, keys[0]) for kind, keys in KEYS.items()])
def test_a_key_is_found_across_the_steps_in_which_a_long_text_is_looked_at(
    kind: str, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redaction, "_STEP", 64)
    monkeypatch.setattr(redaction, "REACH", 300)

    for before in range(0, 500, 7):
        assert redact_text("." * before + key + "." * 600) == "." * before + f"[redacted: {kind}]" + "." * 600


def test_a_token_that_is_longer_than_a_step_is_taken_out_whole() -> None:
    assert redact_text("xai-" + made(200_000) + " end") == "[redacted: API key] end"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("password", "password"),
        ("DB_PASSWORD", "password"),
        ("dbPassword2", "password"),
        ("APIKey", "secret"),
        ("x-api-key", "secret"),
        ("refreshToken", "secret"),
        ("token", "token"),
        ("github_token", "token"),
        ("max_tokens", ""),
        ("next_page_token", ""),
        ("token_type", ""),
        ("secretary", ""),
        ("key", ""),
        ("", ""),
    ],
)
def test_a_name_tells_what_its_value_is(name: str, said: str) -> None:
    assert naming(name) == said
