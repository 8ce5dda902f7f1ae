"""Small work waits for small work, and for nothing else."""

import threading
import time

import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")

from sfumato.serve.uploads import Turns


@pytest.fixture
def file_of(tmp_path):
    def made(size):
        file = tmp_path / f"{size}"
        file.write_bytes(b"")
        with file.open("r+b") as opened:
            opened.truncate(size)
        return file

    return made


def test_small_work_is_done_one_at_a_time(file_of):
    turns, small, guard = Turns(), file_of(10), threading.Lock()
    at_once, most = [], []

    def work():
        with turns.taken(small):
            with guard:
                at_once.append(1)
                most.append(len(at_once))
            time.sleep(0.01)
            with guard:
                at_once.pop()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 8


@pytest.mark.parametrize(("size", "least", "most"), [(2 << 20, 0.0, 0.2), (10, 0.25, 5.0)])
def test_large_work_does_not_wait_and_small_work_not_for_long(file_of, size, least, most):
    turns, held, done = Turns(), threading.Event(), threading.Event()

    def slow():
        with turns.taken(file_of(10)):
            held.set()
            done.wait(10.0)

    other = threading.Thread(target=slow)
    other.start()
    held.wait(10.0)
    file, began = file_of(size), time.monotonic()
    with turns.taken(file):
        waited = time.monotonic() - began
    done.set()
    other.join()
    assert least <= waited <= most


def test_a_turn_is_given_back_by_who_fails(file_of):
    turns, small = Turns(), file_of(10)
    with pytest.raises(ZeroDivisionError), turns.taken(small):
        raise ZeroDivisionError
    began = time.monotonic()
    with turns.taken(small):
        assert time.monotonic() - began < 0.2
