"""`kb verify`: check every entry of a corpus folder, running its kernels without a GPU."""

from kb.verify.corpus import verify_corpus
from kb.verify.result import CheckResult

__all__ = ["CheckResult", "verify_corpus"]
