"""The list of trusted names is what the rules give for the libraries that are installed here."""

from __future__ import annotations

import importlib
import sys

import pytest

from vitrify.pickles import generate, names


@pytest.fixture(scope="module")
def table():
    return dict(line.rsplit(" ", 1) for line in names.TABLE.read_text("ascii").splitlines())


def test_the_list_is_what_the_generator_writes_here():
    assert generate.text() == names.TABLE.read_text("ascii")


def test_the_list_is_sorted_plain_and_says_a_use_for_every_name(table):
    assert list(table) == sorted(table)
    for name, letters in table.items():
        module, attribute = name.split(" ")
        assert attribute.isidentifier()
        assert all(part.isidentifier() for part in module.split("."))
        assert set(letters) <= set("scrSCRM")
        assert letters


def test_no_name_leads_to_a_module_nor_out_of_its_library(table):
    for switch in generate._SWITCHES:
        importlib.import_module(switch)
    for name, letters in table.items():
        module, attribute = name.split(" ")
        if "M" in letters:
            assert names.resolve(module, attribute).__qualname__.endswith(f".{attribute}") or attribute == "_unpickle"
        elif module.startswith(("sklearn", "lightgbm", "xgboost")):
            found = getattr(importlib.import_module(module), attribute, None)
            if found is None:
                continue  # only some releases have it
            assert not isinstance(found, type(sys))
            assert found.__module__.partition(".")[0] == module.partition(".")[0] or attribute == "asarray"
