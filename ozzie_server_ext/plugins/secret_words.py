"""Whether words ask for a secret, such as a password, also where they are written so that a search does not find them.

A list of words finds no wish that is put in others: this is a net below what a person sees, not in place of it.
"""

import re
import unicodedata

from ozzie_server_ext.render.text import without_hidden

_LETTERS = str.maketrans(
    {
        # Cyrillic and Greek letters that look like Latin ones, in lower case.
        **dict(zip("авгдеёзікмнопрѕстухцьјһѵԁԛԝӏ", "abrдeeзikmhoпpsctyxцbjhvdqwl", strict=True)),
        **dict(zip("αβεηικμνορτυχγσωϲϳ", "abenikuvoptuxyowcj", strict=True)),
        # Latin letters with nothing that could be taken off.
        **dict(zip("ıłøđħɑɡɩʟɴʀᴀᴄᴅᴇᴋᴍᴏᴘꜱᴛᴜᴠᴡᴢɪʏ", "ilodhagilnracdekmopstuvwziy", strict=True)),
        **dict.fromkeys("‐‑‒–—―−", "-"),
    }
)
_FIGURES = str.maketrans("013457@$!|", "oieastasil")
"""Figures and signs in place of letters, as in `p4ssw0rd`."""
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SPACED = re.compile(r"(?<!\w)\w(?:[\W_]{1,3}\w(?!\w)){3,}")
"""A word with something between all of its letters."""


def _folded(text: str) -> str:
    """Return a text as it looks to somebody who reads on: in small Latin letters, without accents and hidden signs."""
    bare = "".join(
        each
        for each in unicodedata.normalize("NFKD", without_hidden(text))
        if unicodedata.category(each) not in ("Mn", "Me", "Cf")
    )
    return unicodedata.normalize("NFKD", bare).casefold().translate(_LETTERS)


_ANYWHERE = (
    *("passw", "pass.?wor?d", "pwd", "pass.?phrase", "pass.?code", "secret", "token", "credential", "mnemonic"),
    *("api.{0,2}key", "(private|access|secret|encryption|signing|recovery).{0,2}key", "seed.?phrase"),
    *("2fa", "mfa", "one.?time.{0,2}(code|pass|pin|key)", "(log.?in|sign.?in|auth\\w{0,12}|verification).{0,2}code"),
    *("(security|recovery|backup|access|sms).{0,2}code",),
    *("card.{0,2}number", "session.{0,2}cookie"),
    # In other languages.
    *("kennwort", "passwort", "geheimzahl", "mot.de.passe", "contraseña", "senha", "wachtwoord", "hasło", "lösenord"),
    *("adgangskode", "salasana", "parola d.ordine", "şifre", "heslo", "jelszó", "парол", "κωδικός πρόσβασης"),
    *("密码", "密碼", "口令", "パスワード", "暗証番号", "비밀번호", "รหัสผ่าน", "كلمة المرور", "סיסמה", "पासवर्ड"),
)
_WHOLE = ("pin", "otp", "cvv2?", "cvc2?", "iban", "ssn")
"""They count alone: other words have them in them."""
_WORDS = re.compile(f"(?s){'|'.join(map(_folded, _ANYWHERE))}|(?<![^\\W_])({'|'.join(_WHOLE)})(?![^\\W\\d_])")


def names_secret(text: str) -> bool:
    """Return whether a text has a word for a secret in it."""
    plain = _folded(text)
    parted = _folded(_CAMEL.sub(" ", text))
    joined = _SPACED.sub(lambda found: re.sub(r"[\W_]", "", found[0]), plain)
    return any(_WORDS.search(form) for each in (plain, parted, joined) for form in (each, each.translate(_FIGURES)))
