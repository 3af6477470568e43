"""One rule of the scan, and the advice that several share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

READ_IT = "Read that code. If you trust it, allow it by its exact name in the policy; else do not load the file."
SAVE_AGAIN = "Get the file again from where it was made, or save the model again with its own library."
DO_NOT_USE = "Do not use the file: no honest tool writes this."
WITHOUT = "Ask for the model without it, or convert it to a format of pure data and prove that it predicts the same."
UPDATE = "Update Vitrify; if that does not help, ask for the model in another format."
UNPACK = "Unpack it yourself and scan what comes out."
WHOLE = "Scan the directory with all its files."


@dataclass(frozen=True)
class Rule:
    """One rule.

    Attributes:
        title: What was found, as a heading.
        meaning: What it can do, and why that matters in a model file.
        remedy: What to do about it.
        verdict: What such findings say; some formats say the other where they know better.
    """

    title: str
    meaning: str
    remedy: str
    verdict: Literal["found", "not checked"] = "found"
