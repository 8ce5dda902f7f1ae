"""Blocks of work on threads: all of them once, and the first error told."""

import threading

import numpy as np
import pytest
import threadpoolctl

from sfumato.noise import each_block, inner_threads, processors


@pytest.mark.parametrize("threads", [1, 2, 7, None])
@pytest.mark.parametrize("blocks", [0, 1, 2, 50])
def test_every_block_is_worked_on_once(threads, blocks):
    done = []
    each_block(done.append, blocks, threads)
    assert sorted(done) == list(range(blocks))


@pytest.mark.parametrize("threads", [1, 3])
def test_an_error_in_a_block_is_raised_and_ends_the_work(threads):
    started = []

    def work(block):
        started.append(block)
        if block == 0:
            raise KeyError("block 0")
        pause.wait(0.01)

    pause = threading.Event()
    with pytest.raises(KeyError, match="block 0"):
        each_block(work, 1000, threads)
    assert len(started) < 1000


@pytest.mark.parametrize("threads", [1, 2])
def test_the_error_of_the_first_block_is_the_one_raised(threads):
    def work(block):
        raise ValueError(f"block {block}")

    with pytest.raises(ValueError, match="block 0"):
        each_block(work, 5, threads)


def test_one_thread_works_in_order_in_the_callers_thread():
    seen = []
    each_block(lambda block: seen.append((block, threading.get_ident())), 4, 1)
    assert seen == [(block, threading.get_ident()) for block in range(4)]


def test_there_is_a_processor():
    assert processors() >= 1


def test_linear_algebra_has_one_thread_where_others_work_beside_it():
    def most():
        return max(part["num_threads"] for part in threadpoolctl.threadpool_info())

    assert (np.eye(2) @ np.eye(2) == np.eye(2)).all()  # the library is loaded
    before = most()
    with inner_threads(1):
        assert most() == 1
    with inner_threads(None):
        assert most() == before
    assert most() == before
