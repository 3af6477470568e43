import pytest
from seen_serving import store_in


@pytest.fixture(scope="package")
def store(tmp_path_factory):
    return store_in(tmp_path_factory.mktemp("store"))
