"""The cryptography of the vault, in a handful of functions: all of it is the library `cryptography`'s.

AES-256-GCM with a random nonce of 96 bits seals records and wraps the data key; HKDF-SHA256 makes of the data key one
for each purpose; HMAC-SHA256 holds the file together; Argon2id (RFC 9106) makes a key of a passphrase.

The library is loaded where it is used: a Jupyter Server without a vault shall not pay its 7 MB.
"""

import hmac
import os
from dataclasses import dataclass

KEY_BYTES = 32
NONCE_BYTES = 12
SALT_BYTES = 16
_BLOCK = 256
_LENGTH_BYTES = 4


class NotAuthentic(Exception):
    """What was sealed was changed, or sealed with another key, or for something else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Argon2:
    """The cost of Argon2id, kept beside what it protects. The defaults are above the second recommended option of RFC
    9106 §4 (3 passes, 4 lanes, 64 MiB): 128 MiB, and about 0.6 s."""

    passes: int = 6
    lanes: int = 4
    memory_kib: int = 128 << 10

    @property
    def is_bearable(self) -> bool:
        """Whether it lies in the bounds within which a file may name its own cost: no weaker than the second option,
        and not so high that reading a file would take the machine down."""
        return 3 <= self.passes <= 64 and 1 <= self.lanes <= 16 and (64 << 10) <= self.memory_kib <= (1 << 20)


def new_key() -> bytes:
    return os.urandom(KEY_BYTES)


def subkey(data_key: bytes, purpose: str) -> bytes:
    """The key for one purpose, so that no key serves two algorithms."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    info = b"ozzie vault 1 " + purpose.encode()
    return HKDF(algorithm=hashes.SHA256(), length=KEY_BYTES, salt=None, info=info).derive(data_key)


def passphrase_key(passphrase: str, salt: bytes, cost: Argon2) -> bytes:
    """Takes about 0.6 s and `cost.memory_kib` of memory; other threads go on."""
    from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

    kdf = Argon2id(salt=salt, length=KEY_BYTES, iterations=cost.passes, lanes=cost.lanes, memory_cost=cost.memory_kib)
    return kdf.derive(passphrase.encode())


def seal(key: bytes, plain: bytes, bound_to: bytes) -> bytes:
    """Nonce and ciphertext. `bound_to` is not in it, and has to be the same when it is opened."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce = os.urandom(NONCE_BYTES)
    return nonce + AESGCM(key).encrypt(nonce, plain, bound_to)


def unseal(key: bytes, sealed: bytes, bound_to: bytes) -> bytes:
    """Raises NotAuthentic."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    try:
        return AESGCM(key).decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], bound_to)
    except (InvalidTag, ValueError):
        raise NotAuthentic() from None


def padded(plain: bytes) -> bytes:
    """`plain` filled up to a multiple of 256 bytes, so that what is sealed does not tell how long a key is."""
    framed = len(plain).to_bytes(_LENGTH_BYTES, "big") + plain
    return framed + bytes(-len(framed) % _BLOCK)


def unpadded(framed: bytes) -> bytes:
    """Raises NotAuthentic for what `padded` did not make."""
    length = int.from_bytes(framed[:_LENGTH_BYTES], "big")
    plain = framed[_LENGTH_BYTES : _LENGTH_BYTES + length]
    if padded(plain) != framed:
        raise NotAuthentic()
    return plain


def mac(key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, "sha256")


def same(one: bytes, other: bytes) -> bool:
    return hmac.compare_digest(one, other)
