"""Several processes of one server: each is told apart, and all go on when the log is moved."""

import os
import re
import signal
import subprocess
import sys

import pytest
from seen_serving import ask, infer, store_in, until

from vitrify.checks.record_files import read_records

pytestmark = pytest.mark.slow
ASKED = 40


def test_each_process_says_which_it_is_and_logs_into_the_same_places(tmp_path):
    store_in(tmp_path / "store")
    log, predictions = tmp_path / "access.log", tmp_path / "predictions"
    where = ["--port", "0", "--grpc-port", "-1", "--processes", "2"]
    logs = ["--access-log", str(log), "--prediction-log", str(predictions)]
    command = [sys.executable, "-c", "from vitrify.cli import main; main()", "serve", "times", *where, *logs]
    environment = {**os.environ, "VITRIFY_HOME": str(tmp_path)}
    with (tmp_path / "errors").open("w") as errors:
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True)
    try:
        address = re.search(r"http://(\S+)", process.stdout.readline())[1]
        assert [infer(address, 1, id=f"number-{number}") for number in range(ASKED)] == [200] * ASKED
        seen = set()

        def both():
            seen.update(re.findall(r'process="(\d+)"', ask(address, "/metrics")[2].decode()))
            return seen == {"0", "1"}

        until(both)
        log.rename(tmp_path / "access.log.1")
        process.send_signal(signal.SIGHUP)
        until(lambda: log.exists() and infer(address, 1) == 200 and log.read_text())
    finally:
        process.terminate()
        ended = process.wait(60)
        process.stdout.close()
    assert ended == 0
    ids = {record.id for _, record in read_records(predictions)}
    assert {f"number-{number}" for number in range(ASKED)} <= ids
