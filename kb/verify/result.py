"""The outcome of one check on one corpus entry."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One check: passed, failed, or not run on this machine."""

    slug: str
    """The entry's slug; the corpus's folder name for a check of the whole corpus."""
    check: str
    """What was checked, such as `exports`, `result` or `compile sm_90a`."""
    passed: bool
    detail: str
    """One line: what was found, and for a failure what to do."""
    seconds: float
    not_run: bool = False
    """The check needs what this machine lacks by nature (a GPU): it neither passed nor failed."""

    @property
    def failed(self) -> bool:
        """Whether the check ran and did not pass."""
        return not self.passed and not self.not_run
