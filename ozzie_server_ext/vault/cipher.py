"""The cryptography of the vault: a few functions around the library `cryptography`.

AES-256-GCM with a random 96-bit nonce encrypts records and wraps the data key; HKDF-SHA256 derives one key per purpose
from the data key; HMAC-SHA256 authenticates the file; Argon2id (RFC 9106) derives a key from a passphrase.

The library is imported where it is used: a Jupyter Server without a vault should not pay its 7 MB.
"""

import hmac
import os

import msgspec

KEY_BYTES = 32
NONCE_BYTES = 12
SALT_BYTES = 16
_BLOCK = 256
_LENGTH_BYTES = 4


class NotAuthentic(Exception):
    """The ciphertext was changed, or encrypted with another key or for another purpose."""


class Argon2(msgspec.Struct, frozen=True, kw_only=True):
    """The cost of Argon2id, stored with what it protects. The defaults exceed the second recommended option of RFC 9106
    §4 (3 passes, 4 lanes, 64 MiB): 128 MiB, and about 0.6 s."""

    passes: int = 6
    lanes: int = 4
    memory_kib: int = 128 << 10

    @property
    def is_bearable(self) -> bool:
        """Whether a file may name this cost: at least the second option, and bearable for a machine."""
        return 3 <= self.passes <= 64 and 1 <= self.lanes <= 16 and (64 << 10) <= self.memory_kib <= (1 << 20)


def new_key() -> bytes:
    return os.urandom(KEY_BYTES)


def subkey(data_key: bytes, purpose: str) -> bytes:
    """Derive the key for one purpose, so that no key serves two algorithms."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    info = b"ozzie vault 1 " + purpose.encode()
    return HKDF(algorithm=hashes.SHA256(), length=KEY_BYTES, salt=None, info=info).derive(data_key)


def passphrase_key(passphrase: str, salt: bytes, cost: Argon2) -> bytes:
    """Derive a key. Takes about 0.6 s and `cost.memory_kib` of memory; other threads continue."""
    from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

    kdf = Argon2id(salt=salt, length=KEY_BYTES, iterations=cost.passes, lanes=cost.lanes, memory_cost=cost.memory_kib)
    return kdf.derive(passphrase.encode())


def seal(key: bytes, plain: bytes, bound_to: bytes) -> bytes:
    """Return nonce and ciphertext. `bound_to` is authenticated but not included; `unseal` needs the same."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce = os.urandom(NONCE_BYTES)
    return nonce + AESGCM(key).encrypt(nonce, plain, bound_to)


def unseal(key: bytes, sealed: bytes, bound_to: bytes) -> bytes:
    """Decrypt what `seal` returned. Raises NotAuthentic."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    try:
        return AESGCM(key).decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], bound_to)
    except (InvalidTag, ValueError):
        raise NotAuthentic() from None


def padded(plain: bytes) -> bytes:
    """Pad `plain` to a multiple of 256 bytes, so that the ciphertext hides a secret's length."""
    framed = len(plain).to_bytes(_LENGTH_BYTES, "big") + plain
    return framed + bytes(-len(framed) % _BLOCK)


def unpadded(framed: bytes) -> bytes:
    """Undo `padded`. Raises NotAuthentic for anything else."""
    length = int.from_bytes(framed[:_LENGTH_BYTES], "big")
    plain = framed[_LENGTH_BYTES : _LENGTH_BYTES + length]
    if padded(plain) != framed:
        raise NotAuthentic()
    return plain


def mac(key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, "sha256")


def same(one: bytes, other: bytes) -> bool:
    return hmac.compare_digest(one, other)
