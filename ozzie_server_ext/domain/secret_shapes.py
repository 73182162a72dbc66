"""What secrets look like: keys of well-known shapes, and places where a password stands.

Nobody who sends a text may make it expensive to look at (THREATS 15), so each of these takes time in proportion to the
text: a repeat is possessive, so that it is never tried twice; where something has to follow it, it is bounded too; no
repeat holds another one. Whether there is a match shows within `REACH` characters, however long it then is.
"""

import re

REACH = 16_384
"""In characters."""

# A key begins where a word does, also behind the escape of a line break; within a picture's base64, none does.
_START = r"(?:(?<![A-Za-z0-9+])|(?<=\\[nrt]))"
_WORD = "[A-Za-z0-9]"
_LONG = "[A-Za-z0-9_-]"

_KEYS: tuple[tuple[str, str], ...] = (
    ("AWS key", r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}(?![A-Za-z0-9])"),
    ("GitHub token", rf"gh[pousr]_{_WORD}{{36,}}+|github_pat_[A-Za-z0-9_]{{22,}}+"),
    ("GitLab token", rf"gl(?:pat|dt|rt|ptt|cbt|ft|soat|oas|agent|imt)-{_LONG}{{20,}}+"),
    ("Slack token", r"(?:xox[abeoprs]|xapp)-(?=[A-Za-z-]{0,20}+[0-9])[A-Za-z0-9-]{10,}+"),
    (
        "Google key",
        rf"AIza{_LONG}{{35}}(?![A-Za-z0-9_-])|ya29\.{_LONG}{{20,}}+|GOCSPX-{_LONG}{{20,}}+",
    ),
    # Plain `sk-` begins names of styles too; those have hyphens and no digit.
    (
        "API key",
        rf"sk-(?:ant|proj|or|svcacct|admin|lf)-{_LONG}{{16,}}+|sk-(?=[A-Za-z]{{0,40}}+[0-9]){_WORD}{{32,}}+"
        rf"|gsk_{_WORD}{{20,}}+|xai-{_WORD}{{20,}}+|hf_{_WORD}{{30,}}+|r8_{_WORD}{{30,}}+|pplx-{_WORD}{{30,}}+"
        rf"|[sr]k_(?:live|test)_{_WORD}{{16,}}+|whsec_[A-Za-z0-9+/=]{{20,}}+|SG\.{_LONG}{{16,64}}+\.{_LONG}{{16,}}+"
        rf"|npm_{_WORD}{{36,}}+|pypi-{_LONG}{{50,}}+|do[opr]_v1_[a-f0-9]{{64}}|shp(?:at|ca|pa|ss)_[a-fA-F0-9]{{32,}}+"
        rf"|dapi[a-f0-9]{{32}}(?![a-f0-9])|hv[sb]\.{_LONG}{{24,}}+|lin_api_{_WORD}{{32,}}+|glsa_[A-Za-z0-9_]{{32,}}+"
        rf"|ATATT3[A-Za-z0-9_=-]{{50,}}+|AGE-SECRET-KEY-1[A-Z0-9]{{50,}}+|[0-9]{{8,10}}:AA{_LONG}{{33}}(?![A-Za-z0-9_-])",
    ),
    # A run of these characters is looked at from its beginning only.
    ("web token", rf"(?:(?<![A-Za-z0-9_-])|(?<=\\[nrt]))eyJ{_LONG}{{8,4096}}+\.eyJ{_LONG}{{8,8192}}+\.{_LONG}*+"),
)

KEYS = re.compile(_START + "(?:" + "|".join(f"(?P<k{at}>{shape})" for at, (_, shape) in enumerate(_KEYS)) + ")")
"""Any of the keys; the group that matched says which, for `kind_of`."""

URL_PASSWORD = re.compile(
    r"""://[^\s/:@"'<>\\?#]{0,128}+:(?![0-9]{1,5}[/?#])(?P<value>[^\s@"'<>{}\\]{1,256}+)@(?!sha256:)"""
)
"""The password in an address such as `postgres://user:password@host`; it may hold what an address should not."""

URL_HOST = re.compile(r"[A-Za-z0-9-]{1,63}+(?:\.[A-Za-z0-9-]{1,63}+){1,8}+(?::[0-9]{1,5}+)?/")
"""A host with a dot in its name, and a path behind it."""

URL_REST = re.compile(r"""[^\s"'<>\\?,;)]{0,256}+""")
"""What of an address follows that, in which a password with an at sign goes on."""

AUTHORIZATION = re.compile(
    r"(?:[Aa]uthorization|AUTHORIZATION)\\{0,2}+[\"']?\s{0,4}+[:=]\s{0,4}+\\{0,2}+[\"']?"
    r"(?:[Bb]earer|[Bb]asic|[Tt]oken|[Aa]pi[Kk]ey)\s{1,4}+(?P<value>[A-Za-z0-9._~+/=-]{8,}+)"
)
"""What follows the scheme in a header of that name."""

BEARER = re.compile(r"(?:Bearer|bearer|BEARER)\s{1,4}+(?P<value>[A-Za-z0-9._~+/=-]{16,}+)")

_BETWEEN = (
    r""",?\s{0,40}+\\{0,2}+["']?[Vv]alue\\{0,2}+["']?\s{0,4}+[:=]\s{0,4}+"""
    r"|\s{0,24}+(?:=>|:=|\?=|:\s{0,2}+[A-Za-z_][A-Za-z0-9_.\[\]| ]{0,40}+=(?!=)|[:=,])\s{0,8}+"
    r"|\]\s{0,4}+=\s{0,4}+|>|\s{1,4}+"
)
"""What stands between a name and its value: the first is of lists of names and values, the second has a type or none.
Of the last ones, and of a comma, what is around them decides."""

_QUOTED = "|".join(
    rf"""{quote}(?P<v{at}>(?:[^{quote}\\\n]|\\[^\n]){{1,256}}+){quote}"""
    rf"""|\\{{1,2}}+{quote}(?P<w{at}>[^{quote}\\\n]{{1,256}}+)\\{{1,2}}+{quote}"""
    for at, quote in enumerate("\"'`")
)
"""In quotes, and in those of a text that stands in quotes itself."""

ASSIGNED = re.compile(
    r"(?P<name>(?i:pass(?:word|wd|phrase)|pwd|secret|token|api[_-]?key|(?:access|private|auth|account)[_-]?key|credential)"
    rf"""[A-Za-z0-9_-]{{0,24}}+)(?P<behind>\\{{0,2}}+["']?)(?P<between>{_BETWEEN})"""
    rf"(?:[\[(]?[fFrRbBuU]{{0,2}}+(?:{_QUOTED})"
    r"""|\\{0,2}+(?P<open>["'`]?)(?P<bare>[^\s"'`,;<>(){}\[\]&\\]{8,256}+))"""
)
"""A value after a name that tells of a secret, in code, settings or a log; whether it is one, its look has to tell."""

BARE_REST = re.compile(r"""[^\s"'`,;<>(){}\[\]&\\]*+""")
"""What of a value without quotes goes on behind what `ASSIGNED` looks at."""

OPEN_REST = {quote: re.compile(rf"[^{quote}\n]*+") for quote in "\"'`"}
"""What of one goes on whose quote, the key here, is closed far behind it, or not at all."""


def kind_of(found: re.Match[str]) -> str:
    """Which of the keys a match of `KEYS` is."""
    assert found.lastgroup is not None
    return _KEYS[int(found.lastgroup[1:])][0]
