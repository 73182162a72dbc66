"""The key that exports are signed with: Ed25519 (RFC 8032), derived from the key that signs the log's anchor.

The public key can be given away. It is text: "ozzie-ed25519:" and 43 characters.
"""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as BadBase64

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from msgspec.structs import replace

from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.export.proof import Proof

_PREFIX = "ozzie-ed25519:"
_BASE64 = re.compile(r"[A-Za-z0-9_-]*")
_USE = b"ozzie export signing 1"


def signing_key(anchor_key: bytes) -> Ed25519PrivateKey:
    """Derive the key with HKDF (RFC 5869), so that it needs no further secret file and no backup of its own."""
    derived = HKDF(algorithm=SHA256(), length=32, salt=None, info=_USE).derive(anchor_key)
    return Ed25519PrivateKey.from_private_bytes(derived)


def public_key(key: Ed25519PrivateKey) -> str:
    """Return the public key as text."""
    return _PREFIX + _encoded(key.public_key().public_bytes_raw())


def sign(proof: Proof, key: Ed25519PrivateKey) -> Proof:
    """Return the proof with key and signature."""
    named = replace(proof, key=public_key(key), signature="")
    return replace(named, signature=_encoded(key.sign(named.signed_bytes())))


def is_signed(proof: Proof) -> bool:
    """Whether the key in the proof made the signature; anybody may hold that key."""
    try:
        _public(proof.key).verify(_decoded(proof.signature), proof.signed_bytes())
    except (InvalidSignature, InputError, BadBase64, ValueError):
        return False
    return True


def is_key(text: str) -> bool:
    """Whether the text is meant as a public key, and not as a file with one."""
    return text.strip().startswith(_PREFIX)


def expect_key(text: str) -> str:
    """Return a public key that somebody gave. Raises InputError if it is none."""
    return _PREFIX + _encoded(_public(text.strip()).public_bytes_raw())


def _public(text: str) -> Ed25519PublicKey:
    try:
        if not text.startswith(_PREFIX):
            raise ValueError
        return Ed25519PublicKey.from_public_bytes(_decoded(text.removeprefix(_PREFIX)))
    except (BadBase64, ValueError):
        raise InputError(
            "This is not the public key of an Ozzie.",
            hint=f'It begins with "{_PREFIX}". Who exported the file prints it with: ozzie sessions key',
            code="input.key",
        ) from None


def _encoded(raw: bytes) -> str:
    return urlsafe_b64encode(raw).decode().rstrip("=")


def _decoded(text: str) -> bytes:
    if not _BASE64.fullmatch(text):  # the decoder would pass over other characters
        raise BadBase64
    return urlsafe_b64decode(text.encode() + b"=" * (-len(text) % 4))
