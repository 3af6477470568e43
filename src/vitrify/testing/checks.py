"""For authors of checks: a session over a function, and what every check has to hold to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from vitrify.core.errors import ModelError, VitrifyError
from vitrify.core.report import Report

if TYPE_CHECKING:
    from collections.abc import Callable

    from vitrify.core.protocols import Arrays, Check, Subject
    from vitrify.core.signature import Signature


class FunctionSession:
    """A session over a function from named arrays to named arrays, with nothing in between.

    What the function raises becomes a ModelError; empty batches reach it like all others.
    """

    def __init__(self, signature: Signature, function: Callable[[Arrays], Arrays]) -> None:
        """Keep both."""
        self.signature, self.function = signature, function

    def run(self, inputs: Arrays) -> Arrays:
        """Call the function."""
        try:
            return self.function(inputs)
        except VitrifyError:
            raise
        except Exception as error:
            msg = f"the model raised {type(error).__name__}: {error}"
            raise ModelError(msg) from error

    def predict(self, data: Any) -> Arrays:
        """Call the function on named arrays."""
        return self.run(data)

    def close(self) -> None:
        """Do nothing."""


class CheckConformance:
    """Tests of a check. Subclass it in a test module and implement the first four methods."""

    name = ""
    """The check's catalog name."""

    def check(self) -> Check:
        """Return the check."""
        raise NotImplementedError

    def clean(self) -> tuple[Subject, Subject | None]:
        """Return a subject and a reference with which nothing is wrong."""
        raise NotImplementedError

    def faulty(self) -> tuple[Subject, Subject | None]:
        """Return a subject and a reference with which something is wrong."""
        raise NotImplementedError

    def unanswerable(self) -> tuple[Subject, Subject | None]:
        """Return a subject and a reference about which the check cannot say anything."""
        raise NotImplementedError

    def test_a_clean_subject_is_clean_and_without_findings(self) -> None:
        """Nothing wrong, nothing found."""
        report = self.check().run(*self.clean())
        assert (report.check, report.verdict, report.findings) == (self.name, "clean", ())

    def test_a_faulty_subject_is_found_and_the_findings_point_at_places(self) -> None:
        """A fault has a place and a message."""
        report = self.check().run(*self.faulty())
        assert (report.check, report.verdict) == (self.name, "found")
        assert report.findings
        assert all(finding.place and finding.message for finding in report.findings)

    def test_what_cannot_be_checked_is_never_clean(self) -> None:
        """Not checked, and the reason is told."""
        report = self.check().run(*self.unanswerable())
        assert report.verdict == "not checked"
        assert report.findings

    def test_the_same_question_has_the_same_answer(self) -> None:
        """A check has no clock and no dice."""
        subject = self.faulty()
        assert self.check().run(*subject) == self.check().run(*subject)

    def test_the_report_survives_json(self) -> None:
        """What is attested is what was found."""
        for subject in (self.clean(), self.faulty(), self.unanswerable()):
            report = self.check().run(*subject)
            assert Report.from_json(report.to_json(), where="report") == msgspec.convert(
                msgspec.to_builtins(report), Report
            )
