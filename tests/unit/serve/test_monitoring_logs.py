"""Logs: one line of JSON for each event, only the fields there are, and never another's words."""

import asyncio
import json
import logging
import os
import re
import stat
import threading
import warnings
from pathlib import Path

import pytest

pytest.importorskip("prometheus_client", reason="the extra serve is not installed")
from sfumato.errors import BadInput
from sfumato.serve import monitoring

SECRET = "patient 4711 has a fever"


@pytest.fixture
def lines(tmp_path):
    """Starts a log in a file, and returns its lines; what other packages log goes where it went before."""
    root = logging.getLogger()
    before, lines, file = list(root.handlers), monitoring._descriptor, tmp_path / "log"
    monitoring.start_logging(file)
    yield lambda: [json.loads(line) for line in file.read_text().splitlines()]
    root.handlers, monitoring._descriptor = before, lines
    logging.captureWarnings(False)


def test_a_line_has_its_time_and_what_was_said_and_nothing_empty(lines):
    monitoring.log("request", tenant="t0", route="/v1/budgets/{dataset}", status=200, ms=1.23456, bytes_in=0)
    (line,) = lines()
    assert re.fullmatch(r"2\d{3}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", line.pop("time"))
    assert line == {
        "level": "info",
        "event": "request",
        "tenant": "t0",
        "route": "/v1/budgets/{dataset}",
        "status": 200,
        "ms": 1.235,
        "bytes_in": 0,
    }


def test_nothing_else_can_be_said(lines):
    with pytest.raises(TypeError):
        monitoring.log("request", dataset="ward")
    with pytest.raises(TypeError):
        monitoring.add_log_fields(reader="smith")
    assert lines() == []


def test_an_error_is_told_by_its_type_and_place_alone(lines):
    try:
        int(SECRET)
    except ValueError as error:
        monitoring.log("unforeseen", level="error", error=error)
    (line,) = lines()
    assert line["error"] == "ValueError"
    assert re.fullmatch(r"unit/serve/test_monitoring_logs\.py:\d+", line["place"])
    assert SECRET not in json.dumps(line)


def test_an_error_in_another_package_is_placed_in_ours_too(lines):
    try:
        monitoring.start_logging(Path(os.devnull) / "nothing")
    except BadInput as error:
        cause = error.__context__
    assert monitoring.place_of(None) is None
    assert re.fullmatch(r"sfumato/serve/monitoring\.py:\d+", monitoring.place_of(cause.__traceback__))
    with pytest.raises(AttributeError) as raised:
        monitoring.place_of(SECRET)
    place = monitoring.place_of(raised.tb)
    assert re.search(r"traceback\.py:\d+ in sfumato/serve/monitoring\.py:\d+$", place)


def test_who_was_switched_off_by_others_is_heard_again(lines, tmp_path):
    logger = logging.getLogger("uvicorn.error")
    logger.disabled = True
    monitoring.start_logging(tmp_path / "log")
    logger.error("something")
    (line,) = lines()
    assert line["source"].startswith("uvicorn.error ")


@pytest.mark.parametrize("level", ["warning", "error"])
def test_words_of_other_packages_are_left_out(lines, level):
    getattr(logging.getLogger("uvicorn.error"), level)("could not read %s", SECRET)
    try:
        raise RuntimeError(SECRET)
    except RuntimeError:
        logging.getLogger("other").exception(SECRET)
    first, second = lines()
    assert first["level"] == level
    assert first["source"].startswith("uvicorn.error unit/serve/test_monitoring_logs.py:")
    assert second["error"] == "RuntimeError"
    assert SECRET not in json.dumps([first, second])


def test_warnings_are_lines_and_information_of_others_is_not(lines):
    logging.getLogger("other").info(SECRET)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(False)
        logging.captureWarnings(True)
        warnings.warn(SECRET, stacklevel=1)
    (line,) = lines()
    assert line["source"].startswith("py.warnings ")
    assert SECRET not in json.dumps(line)


def test_who_asks_is_noted_from_threads_and_for_its_own_request_alone(lines):
    async def request(tenant):
        with monitoring.log_fields() as notes:
            await asyncio.to_thread(monitoring.add_log_fields, tenant=tenant, key=f"key of {tenant}")
            await asyncio.sleep(0)
            return notes

    async def both():
        return await asyncio.gather(request("a"), request("b"))

    assert asyncio.run(both()) == [{"tenant": "a", "key": "key of a"}, {"tenant": "b", "key": "key of b"}]
    monitoring.add_log_fields(tenant="outside", key="outside")  # of no request: nothing to add it to


def test_processes_and_threads_never_mix_their_lines(lines):
    def many(number):
        for _ in range(50):
            monitoring.log("request", tenant="t" * 500, worker=number)

    threads = [threading.Thread(target=many, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counts = [line["worker"] for line in lines()]
    assert {number: counts.count(number) for number in range(8)} == dict.fromkeys(range(8), 50)


def test_the_file_is_for_its_owner_alone_and_one_that_cannot_be_written_is_said_so(lines, tmp_path):
    assert stat.S_IMODE((tmp_path / "log").stat().st_mode) == 0o600
    with pytest.raises(BadInput, match="cannot be written"):
        monitoring.start_logging(tmp_path / "none" / "log")


def test_a_log_that_fails_does_not_fail_what_it_tells_of(lines, tmp_path):
    monitoring.start_logging(Path("/dev/full"))
    monitoring.log("request")
