"""Picture: the distribution of the errors of a report, as SVG, as a page, and for a terminal.

Each floating-point output is a histogram by decades of its rows' errors, with the tolerance as a line; rows that
are equal to the bit stand apart on the left. Counts are drawn on a logarithmic scale: one bad row in 20 000 shows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vitrify.core.report import Report

_WIDTH, _PANEL, _HEAD, _LEFT, _BARS = 760, 210, 46, 40, 110
_INK, _SOFT, _GOOD, _BAD, _EQUAL = "#1d2733", "#66727f", "#2b7a9b", "#c23b31", "#3a9a6b"
_VERDICTS = {"clean": _EQUAL, "found": _BAD, "not checked": "#9a6b00"}
_FONT = "font-family:system-ui,-apple-system,'Segoe UI',sans-serif"
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_TERMINAL = 40
_STYLE = f"""
body {{ {_FONT}; color: {_INK}; background: #fff; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
  line-height: 1.5 }}
h1 {{ font-size: 1.5rem }} h2 {{ font-size: 1.1rem; margin-top: 2rem }}
table {{ border-collapse: collapse; font-size: .85rem; width: 100% }}
th, td {{ text-align: left; padding: .3rem .6rem; border-bottom: 1px solid #e3e7eb; vertical-align: top;
  overflow-wrap: anywhere }}
th {{ white-space: nowrap }}
.verdict {{ color: #fff; padding: .1rem .6rem; border-radius: .8rem; font-size: 1rem }}
svg {{ max-width: 100%; height: auto }}
"""


@dataclass(frozen=True)
class _Bar:
    """One bar: its label, its rows, and its colour."""

    label: str
    rows: int
    color: str
    decade: int | None = None


def svg(report: Report) -> str:
    """Return the error distribution of every output as one SVG image that needs nothing else."""
    outputs: dict[str, Any] = report.details.get("outputs", {})
    height, parts = _HEAD, []
    for name, figures in sorted(outputs.items()):
        parts.append(f'<g transform="translate(0 {height})">{_panel(name, figures)}</g>')
        height += _PANEL if figures["kind"] == "float" else _HEAD
    if not outputs:
        parts.append(_text(_LEFT, height + 14, "; ".join(f.message for f in report.findings) or "nothing was compared"))
        height += _HEAD
    title = _text(_LEFT, 30, f"{report.check}: {report.verdict}", size=18, weight=600, color=_VERDICTS[report.verdict])
    compared = report.details.get("rows", {}).get("compared", 0)
    title += _text(_WIDTH - _LEFT, 30, f"{compared:,} rows compared", anchor="end", color=_SOFT)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" '
        f'role="img" aria-label="{escape(report.check)}: {escape(report.verdict)}" style="{_FONT}">'
        f'<rect width="{_WIDTH}" height="{height}" fill="#fff"/>{title}{"".join(parts)}</svg>'
    )


def html(report: Report) -> str:
    """Return a page: the verdict, the picture, the figures, the probes and the worst rows."""
    details = report.details
    sections = [
        _section(
            "Findings", ("place", "finding", "what to do"), [(f.place, f.message, f.remedy) for f in report.findings]
        ),
        svg(report),
        _section(
            "Outputs",
            ("output", "rows", "not the same", "forgiven", "tolerance", "largest error", "99.9 %"),
            _figures(details),
        ),
        _section(
            "Worst rows", ("output", "probe", "row", "inputs", "got", "expected", "times allowed"), _worst(details)
        ),
        _section("Several calls in a row", ("output", "largest absolute error"), _steps(details)),
        _section("Distributions", ("output", "elements", "largest distance", "allowed"), _distances(details)),
        _section("The source's own noise", ("output", "between two equal calls"), _noise(details)),
        _section("Probes", ("probe", "rows", "refused by the source", "not the same"), _probes(details)),
    ]
    left_out = "".join(f"<li>{escape(name)}</li>" for name in details.get("left_out", ()))
    badge = f'<span class="verdict" style="background:{_VERDICTS[report.verdict]}">{escape(report.verdict)}</span>'
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(report.check)}: '
        f"{escape(report.verdict)}</title><style>{_STYLE}</style></head><body><h1>{escape(report.check)} {badge}</h1>"
        f"{''.join(sections)}{f'<h2>Probes left out</h2><ul>{left_out}</ul>' if left_out else ''}</body></html>"
    )


def text(report: Report) -> str:
    """Return the same for a terminal, at most 80 columns wide but for the findings."""
    compared = report.details.get("rows", {}).get("compared", 0)
    lines = [f"{report.check}: {report.verdict}, {compared:,} rows compared"]
    for name, figures in sorted(report.details.get("outputs", {}).items()):
        lines += ["", f"  {name}: {_summary(figures)}"]
        if figures["kind"] == "float":
            bars = _bars(figures["histogram"])
            largest = max((bar.rows for bar in bars), default=0)
            within = [bar for bar in bars if bar.color != _BAD]
            for bar in bars:
                lines.append(f"  {bar.label:>10} {_blocks(bar.rows, largest)} {bar.rows:,}")
                lines += [_ruler(figures)] if bar is within[-1] else []
    lines += ["", *(f"  - {finding}" for finding in report.findings)] if report.findings else []
    return "\n".join(lines)


def _ruler(figures: dict[str, Any]) -> str:
    return f"  {figures['histogram']['line']:>10.0e} {'-' * _TERMINAL} tolerance"


def _blocks(rows: int, largest: int) -> str:
    filled = _height(rows, largest) * _TERMINAL
    whole, rest = int(filled), int((filled - int(filled)) * 8)
    return ("█" * whole + (_EIGHTHS[rest] if rest else "")).ljust(_TERMINAL)


def _height(rows: int, largest: int) -> float:
    """Return a bar's share of the full height, on a logarithmic scale on which one row is visible."""
    return math.log10(1 + rows) / math.log10(1 + largest) if rows else 0.0


def _bars(histogram: dict[str, Any]) -> list[_Bar]:
    """Return the bars from the equal rows over every decade up to the tolerance, or beyond, to the infinite ones."""
    decades = {int(decade): rows for decade, rows in histogram["decades"].items()}
    line = histogram["line"]
    edge = math.ceil(math.log10(line) - 1e-9) if line > 0 else min(decades, default=0)
    first, last = min([edge - 1, *decades]), max([edge - 1, *decades])
    bars = [_Bar("equal", histogram["equal"], _EQUAL)]
    bars += [
        _Bar(f"1e{decade:+d}", decades.get(decade, 0), _BAD if decade >= edge else _GOOD, decade)
        for decade in range(first, last + 1)
    ]
    return [*bars, _Bar("not finite", histogram["infinite"], _BAD)] if histogram["infinite"] else bars


def _panel(name: str, figures: dict[str, Any]) -> str:
    head = _text(_LEFT, 16, name, size=14, weight=600) + _text(_LEFT, 34, _summary(figures), color=_SOFT)
    if figures["kind"] != "float":
        return head
    bars = _bars(figures["histogram"])
    step = (_WIDTH - 2 * _LEFT) / len(bars)
    largest = max((bar.rows for bar in bars), default=0)
    base, parts = 50 + _BARS, []
    for position, bar in enumerate(bars):
        x, height = _LEFT + position * step, _height(bar.rows, largest) * (_BARS - 16)
        parts.append(
            f'<rect x="{x + 3:.1f}" y="{base - height:.1f}" width="{step - 6:.1f}" height="{height:.1f}" rx="2" '
            f'fill="{bar.color}"><title>{bar.label}: {bar.rows:,} rows</title></rect>'
        )
        parts.append(_text(x + step / 2, base + 16, bar.label, size=11, anchor="middle", color=_SOFT))
        if bar.rows:
            shown = f"{bar.rows:,}" if step > 44 or bar.rows < 1000 else f"{bar.rows / 1000:.0f}k"  # noqa: PLR2004 (what fits in)
            parts.append(_text(x + step / 2, base - height - 4, shown, size=11, anchor="middle"))
    axis = f"error of a row ({figures['histogram']['axis']}); counts on a logarithmic scale"
    parts.append(f'<line x1="{_LEFT}" x2="{_WIDTH - _LEFT}" y1="{base}" y2="{base}" stroke="{_SOFT}"/>')
    parts.append(_line(bars, figures["histogram"]["line"], step, base))
    return head + "".join(parts) + _text(_LEFT, base + 34, axis, size=11, color=_SOFT)


def _line(bars: Sequence[_Bar], tolerance: float, step: float, base: float) -> str:
    """Return the tolerance as a dashed line at its place on the axis."""
    first = next(bar.decade for bar in bars if bar.decade is not None)
    if tolerance <= 0:
        return ""
    x = _LEFT + step * (1 + math.log10(tolerance) - first)
    label = _text(
        min(x, _WIDTH - _LEFT) - 5, base - _BARS + 4, f"tolerance {tolerance:.0e}", size=11, anchor="end", color=_BAD
    )
    ends = f'x1="{x:.1f}" x2="{x:.1f}" y1="{base - _BARS}" y2="{base}"'
    return f'<line {ends} stroke="{_BAD}" stroke-dasharray="4 3"/>{label}'


def _summary(figures: dict[str, Any]) -> str:
    failed = f"{figures['rows']:,} rows, {figures['failed']:,} not the same"
    if forgiven := _forgiven(figures):
        failed += f" ({forgiven})"
    if figures["kind"] != "float":
        return f"{failed}; exact"
    bound = figures["tolerance"]
    return f"{failed}; largest absolute error {_short(figures['absolute']['max'])}; {bound['precision']}"


def _forgiven(figures: dict[str, Any]) -> str:
    names = {"ties": "ties", "ill_conditioned": "ill-conditioned", "overflowed": "overflowed"}
    names["unanswered"] = "without an answer of the source"
    return ", ".join(f"{figures[key]:,} {label}" for key, label in names.items() if figures.get(key))


def _short(value: Any) -> str:
    match value:
        case float():
            return f"{value:.2g}"
        case dict():
            return ", ".join(f"{key}={item!r}" for key, item in sorted(value.items()))
        case _:
            return str(value)


def _figures(details: dict[str, Any]) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    for name, figures in sorted(details.get("outputs", {}).items()):
        common = (name, f"{figures['rows']:,}", f"{figures['failed']:,}", _forgiven(figures))
        if figures["kind"] == "float":
            bound, absolute, relative = figures["tolerance"], figures["absolute"], figures["relative"]
            allowed = (
                f"{_short(bound['rtol'])} x value + {_short(bound['atol'])} ({bound['precision']}: {bound['why']})"
            )
            errors = (f"{_short(absolute[key])} absolute, {_short(relative[key])} relative" for key in ("max", "p99.9"))
            found.append((*common, allowed, *errors))
        else:
            found.append((*common, "equal", "", ""))
    return found


def _worst(details: dict[str, Any]) -> list[tuple[Any, ...]]:
    keys = ("output", "probe", "row", "inputs", "got", "expected", "excess")
    return [tuple(_short(worst[key]) for key in keys) for worst in details.get("worst", ())]


def _probes(details: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [
        (name, f"{counts.get('rows', 0):,}", f"{counts.get('refused', 0):,}", f"{counts.get('failed', 0):,}")
        for name, counts in sorted(details.get("probes", {}).items())
    ]


def _steps(details: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [(name, _short(error)) for name, error in sorted(details.get("steps", {}).get("absolute", {}).items())]


def _distances(details: dict[str, Any]) -> list[tuple[Any, ...]]:
    found = details.get("distribution", {})
    return [
        (name, figures["elements"], _short(figures["largest_distance"]), _short(found["critical_distance"]))
        for name, figures in sorted(found.get("outputs", {}).items())
    ]


def _noise(details: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [(name, _short(noise)) for name, noise in sorted(details.get("noise", {}).items()) if noise]


def _section(title: str, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    body = "".join(f"<tr>{''.join(f'<td>{escape(str(cell))}</td>' for cell in row)}</tr>" for row in rows)
    if not body:
        return ""
    head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    return f"<h2>{escape(title)}</h2><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _text(
    x: float, y: float, content: str, *, size: int = 12, weight: int = 400, anchor: str = "start", color: str = _INK
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" font-weight="{weight}" text-anchor="{anchor}" '
        f'fill="{color}">{escape(content)}</text>'
    )
