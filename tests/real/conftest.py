"""A store for the models of a whole module: each is packed once."""

import pytest

from vitrify.stores.oci_layout import OciLayout


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    return OciLayout(tmp_path_factory.mktemp("shelf"))
