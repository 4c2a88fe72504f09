"""What an S3 server, or the network before it, said no with, as an error that says what to do.

obstore tells it in one text: a first line, S3's own words as XML (docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html), and
the error's parts as Rust prints them. Only short pieces of it are repeated: the words of S3 may quote the request."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from symd.errors import StoreUnavailable

NO_KEY: Final = "NoSuchKey"
"""S3's word for: nothing has this name."""
_CODE: Final = re.compile(r"<Code>(\w{1,80})</Code>")
_STATUS: Final = re.compile(r"status code: (\d{3})([ \w]{0,40})")
_SYSTEM: Final = re.compile(r'(?:message|error): "([^"\\]{1,200})"')
_NO_CREDENTIALS: Final = ("/latest/api/token", "/latest/meta-data", "no credential")
"""Who has no keys is taken for a machine of Amazon's, which is asked for some."""
_CREDENTIALS: Final = (
    "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and AWS_SESSION_TOKEN where the keys are temporary"
)
_REGION: Final = "set AWS_REGION to the bucket's region"
_REACH: Final = "see that the server runs, and that AWS_ENDPOINT_URL names it"
_RIGHTS: Final = (
    "let these credentials list, read, write and delete below that prefix"
    " (s3:ListBucket, s3:GetObject, s3:PutObject, s3:DeleteObject)"
)
_HINTS: Final[Mapping[str, str]] = {
    "InvalidAccessKeyId": _CREDENTIALS,
    "SignatureDoesNotMatch": _CREDENTIALS,
    "ExpiredToken": "renew AWS_SESSION_TOKEN and the keys",
    "InvalidToken": "renew AWS_SESSION_TOKEN and the keys",
    "AccessDenied": _RIGHTS,
    "RequestTimeTooSkewed": "set this machine's clock",
    "NoSuchBucket": "make the bucket, or name another with --store",
    "PermanentRedirect": _REGION,
    "AuthorizationHeaderMalformed": _REGION,
    "EntityTooLarge": "the server takes no files of this size",
    "QuotaExceeded": "the server's quota is used up",
    "SlowDown": "it has too many requests; try again later",
}
"""What to do, by the code that S3 gives."""


class Refusal(NamedTuple):
    """The error; whether the same call may do at once (not after an answer that was meant), and whether anybody answered."""

    error: StoreUnavailable
    again: bool
    answered: bool = True


def s3_code(text: str) -> str:
    """The code in which S3 says what is wrong; "" where nothing came from an S3 server, or no words did."""
    found = _CODE.search(text)
    return found[1] if found else ""


def s3_refusal(text: str, where: str, seconds: float) -> Refusal:
    """Of what obstore says about ``where``, a URL; ``seconds`` is how long an answer is waited for."""
    code, status = s3_code(text), _STATUS.search(text)
    if any(words in text for words in _NO_CREDENTIALS):
        return Refusal(_error("there are no credentials for the object storage", where, _CREDENTIALS), again=False)
    if status is not None:
        answer = f"{status[1]}{status[2]}".strip()
        words = f"the object storage refused: {code} ({answer})" if code else f"the object storage answered {answer}"
        hint = _HINTS.get(code, _CREDENTIALS if status[1] in ("401", "403") else _REACH)
        facts = {"http_status": status[1], **({"code": code} if code else {})}
        return Refusal(_error(words, where, hint, facts), again=status[1].startswith("5"))
    if "kind: Timeout" in text or "TimedOut" in text:
        silence = _error(f"the object storage said nothing for {seconds:g} s", where, _REACH)
        return Refusal(silence, again=True, answered=False)
    if "InvalidCertificate" in text:
        hint = "name the file of who signed it with AWS_CA_BUNDLE"
        return Refusal(_error("the object storage's certificate is not trusted here", where, hint), again=False)
    unreachable = _error(f"the object storage cannot be reached: {_cause(text)}", where, _REACH)
    return Refusal(unreachable, again=True, answered=False)


def cut_off(where: str, got: int, size: int) -> Refusal:
    """Of a file that ended before its end."""
    return Refusal(_error(f"the object storage sent {got} of {size} bytes", where, _REACH), again=True)


def too_slow(where: str, size: int, seconds: float) -> Refusal:
    """Of a file that took too long."""
    message = f"the object storage did not send {size} bytes within {seconds:g} s"
    return Refusal(_error(message, where, "wait longer with --limit storage_seconds=SECONDS"), again=False)


def _cause(text: str) -> str:
    """What the operating system said, or the end of obstore's first line."""
    system = _SYSTEM.search(text)
    return (system[1] if system else text.partition("\n")[0].rpartition(" - ")[2][:200]).lower()


def _error(message: str, where: str, hint: str, facts: Mapping[str, str] | None = None) -> StoreUnavailable:
    return StoreUnavailable(message, where=where, hint=hint, metadata={"storage": where, **(facts or {})})
