"""The pickle machine: audit a pickle without running it, and load one from trusted and allowed constructors only.

Both go through the same opcodes of the same bytes with the same loop (:mod:`vitrify.pickles.program`)::

    found = audit(view, where="model.pkl")    # what it would use and do; imports nothing that it names
    model = load(view, where="model.pkl", allow=Allow.of(["acme.steps.Scale"]))

Loading audits first: nothing is built unless every name is trusted or allowed and nothing else was found.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NoReturn

from vitrify.core.errors import LimitExceededError, MalformedError, VitrifyError
from vitrify.core.report import Finding
from vitrify.pickles import arrow, shape
from vitrify.pickles.auditing import Auditor
from vitrify.pickles.building import Builder
from vitrify.pickles.dialect import PLAIN, Dialect
from vitrify.pickles.program import Program

if TYPE_CHECKING:
    from vitrify.core.protocols import Allow
    from vitrify.pickles.names import Name

MAX_STACKED = 100


@dataclass(frozen=True)
class Audit:
    """What a pickle would do.

    Attributes:
        names: Every class and function that it looks up, and how it uses it; also those met before a break.
        findings: What is wrong with it. ``untrusted-global`` can be allowed by its ``subject``, the others cannot.
        end: Offset behind its STOP; where it breaks, the opcode that does not fit.
        protocol: Its protocol.
        root: What it makes, as an inert value; None where it breaks.
        versions: What its states say about versions, ``_sklearn_version`` for example.
        error: Why it could not be read to its end, or None.
    """

    names: tuple[Name, ...]
    findings: tuple[Finding, ...]
    end: int
    protocol: int
    root: Any
    versions: dict[str, str] = field(default_factory=dict)
    error: MalformedError | None = None

    @property
    def untrusted(self) -> tuple[str, ...]:
        """The dotted names that have to be allowed, sorted."""
        return tuple(sorted({one.subject for one in self.findings if one.rule == "untrusted-global"}))


def audit(view: memoryview, *, where: str, dialect: Dialect = PLAIN, start: int = 0, stacked: bool = True) -> Audit:
    """Return what a pickle would do. It raises nothing: what cannot be read is in ``error``, and a finding.

    Args:
        view: The bytes.
        where: What they are, for findings.
        dialect: What a library adds to pickles.
        start: Where the pickle starts.
        stacked: Whether to look at what follows the STOP: other pickles are audited too, other bytes are a finding.
    """
    found = _audit(view, start, where, dialect)
    return found if not stacked or found.error is not None else _with_stacked(found, view, where, dialect)


def _with_stacked(found: Audit, view: memoryview, where: str, dialect: Dialect) -> Audit:
    """Look at what follows the STOP: a reader of one pickle would not, a reader of all would run it."""
    names, findings, end = dict.fromkeys(found.names), list(found.findings), found.end
    for _ in range(MAX_STACKED):
        if end == len(view):
            break
        more = _audit(view, end, where, dialect)
        names.update(dict.fromkeys(more.names))
        what = "another pickle follows" if more.error is None else f"{len(view) - end} bytes follow the pickle's end"
        findings.append(Finding(place=f"{where}:opcode {end}", message=what, rule="trailing-bytes"))
        findings += [one for one in more.findings if more.error is None or one.rule == "untrusted-global"]
        if more.error is not None:
            break
        end = more.end
    return replace(found, names=tuple(names), findings=tuple(findings))


def _audit(view: memoryview, start: int, where: str, dialect: Dialect) -> Audit:
    hands = Auditor(view, dialect, where=where)
    program = Program(view, hands, where=where)
    root, error = None, None
    try:
        root, end = program.run(start)
        shape.check(root, where=where)
    except MalformedError as malformed:
        end, error = program.at, malformed
    except (LookupError, ValueError) as unfit:
        end = program.at
        what = f"opcode {view[end]:#04x} at {end} does not fit its operands, stack or memo ({type(unfit).__name__})"
        error = MalformedError(f"{where}: not a whole pickle: {what}", remedy="get the file again")
    broken = () if error is None else (_broken(error, f"{where}:opcode {end}"),)
    findings = (*hands.untrusted(), *hands.findings, *broken)
    return Audit(tuple(hands.names()), findings, end, program.protocol, root, hands.versions, error)


def _broken(error: MalformedError, place: str) -> Finding:
    if isinstance(error, LimitExceededError):
        return Finding(place=place, message=error.message, rule="limit", verdict="not checked")
    return Finding(place=place, message=error.message, rule="malformed-pickle")


def load(view: memoryview, *, where: str, allow: Allow, dialect: Dialect = PLAIN) -> Any:
    """Audit a pickle, and build what it holds.

    Args:
        view: The bytes.
        where: What they are, for error messages.
        allow: What the user trusts besides the built-in list.
        dialect: What a library adds to pickles.

    Raises:
        UntrustedCodeError: It names code that is neither trusted nor allowed; all is listed, nothing was run.
        MalformedError: It is no pickle, does what no pickler writes, names what is not here, or fails in a
            constructor.
    """
    found = audit(view, where=where, dialect=dialect)
    if found.error is not None:
        raise found.error
    allow.require(found.untrusted, what=f"loading {where}")
    if worse := [one for one in found.findings if one.rule != "untrusted-global"]:
        msg = f"{where}: not a pickle that can be loaded safely: {worse[0]}"
        raise MalformedError(msg, remedy="do not use this file: no pickler writes one like it")
    hands = Builder(view, dialect, where=where)
    try:
        value, _ = Program(view, hands, where=where).run()
        hands.finish()
    except VitrifyError:
        raise
    except Exception as error:  # noqa: BLE001 (a constructor raises what it likes about what does not fit)
        _fail(error, where, found.versions)
    return value


def _fail(error: Exception, where: str, versions: dict[str, str]) -> NoReturn:
    if isinstance(error, ImportError) and "pyarrow" in str(error):
        arrow.library()  # a type of pandas asks for it by itself
    msg = f"{where}: the pickle failed ({type(error).__name__}: {error})"
    saved = ", ".join(f"{name.strip('_').removesuffix('_version')} {version}" for name, version in versions.items())
    remedy = f"load it with the versions of the libraries that it was saved with{f' ({saved})' if saved else ''}"
    raise MalformedError(msg, remedy=remedy) from error
