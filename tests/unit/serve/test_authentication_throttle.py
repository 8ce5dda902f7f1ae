"""Wrong keys from one site are few, and remembering them takes little memory."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.errors import BadInput
from sfumato.serve.authentication import Guessing, site_of


class Seconds:
    """A clock that is set by hand."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def seconds():
    return Seconds()


def fail(guessing, address, times):
    for _ in range(times):
        guessing.failed(address)


def test_after_ten_wrong_keys_the_eleventh_waits_six_seconds(seconds):
    guessing = Guessing(clock=seconds)
    for _ in range(10):
        assert guessing.wait("192.0.2.1") == 0.0
        guessing.failed("192.0.2.1")
    assert guessing.wait("192.0.2.1") == pytest.approx(6.0)
    seconds.now = 6.0
    assert guessing.wait("192.0.2.1") == pytest.approx(0.0)
    guessing.failed("192.0.2.1")
    assert guessing.wait("192.0.2.1") == pytest.approx(6.0)


def test_right_keys_are_never_counted(seconds):
    guessing = Guessing(clock=seconds)
    assert [guessing.wait("192.0.2.1") for _ in range(1000)] == [0.0] * 1000
    assert guessing.remembered == 0


def test_other_sites_do_not_wait(seconds):
    guessing = Guessing(clock=seconds)
    fail(guessing, "192.0.2.1", 30)
    assert guessing.wait("192.0.2.1") > 0
    assert guessing.wait("192.0.2.2") == 0.0
    assert guessing.wait("2001:db8::1") == 0.0


def test_all_addresses_of_one_ipv6_network_are_one_site(seconds):
    guessing = Guessing(clock=seconds)
    for number in range(10):
        guessing.failed(f"2001:db8:1:2::{number:x}")
    assert guessing.wait("2001:0DB8:1:2:ffff::9") > 0
    assert guessing.wait("2001:db8:1:3::1") == 0.0
    assert guessing.remembered == 1


@pytest.mark.parametrize(
    ("address", "site"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("fe80::1%eth0", "fe80::/64"),
        ("FE80:0::1", "fe80::/64"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("testclient", ""),
        ("", ""),
        (None, ""),
        ("192.0.2.1, 198.51.100.1", ""),
    ],
)
def test_an_address_has_one_site_however_it_is_written(address, site):
    assert site_of(address) == site


def test_memory_is_bounded_and_the_oldest_site_is_forgotten_first(seconds):
    guessing = Guessing(sites=100, clock=seconds)
    fail(guessing, "192.0.2.1", 10)
    for number in range(99):
        guessing.failed(f"198.51.100.{number}")
    assert guessing.wait("192.0.2.1") > 0
    guessing.failed("192.0.2.1")  # its last guess is now the newest
    for number in range(99):
        guessing.failed(f"203.0.113.{number}")
    assert guessing.wait("192.0.2.1") > 0
    for number in range(10_000):
        guessing.failed(f"2001:db8:{number:x}::1")
        assert guessing.remembered <= 100
    assert guessing.remembered == 100
    assert guessing.wait("192.0.2.1") == 0.0


def test_who_guesses_very_many_waits_two_fillings_at_most(seconds):
    guessing = Guessing(guesses=10, seconds=60.0, clock=seconds)
    fail(guessing, "192.0.2.1", 10_000)
    assert guessing.wait("192.0.2.1") == pytest.approx(66.0)
    seconds.now = 66.0
    assert guessing.wait("192.0.2.1") == pytest.approx(0.0)


@given(st.integers(1, 20), st.floats(1.0, 100.0), st.lists(st.floats(0.0, 30.0), max_size=60))
def test_no_more_wrong_keys_are_looked_at_than_the_bucket_holds_and_gains(guesses, length, pauses):
    clock = Seconds()
    guessing = Guessing(guesses=guesses, seconds=length, clock=clock)
    looked_at = 0
    for pause in pauses:
        clock.now += pause
        if guessing.wait("192.0.2.1") == 0.0:
            looked_at += 1
            guessing.failed("192.0.2.1")
    assert looked_at <= guesses + clock.now * guesses / length + 1e-6


def test_threads_count_together():
    guessing = Guessing(guesses=1000, seconds=1e9, sites=10)
    threads = [threading.Thread(target=fail, args=(guessing, "192.0.2.1", 125)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert guessing.wait("192.0.2.1") == pytest.approx(1e6, rel=1e-3)  # of 1,000 guesses none is left


@pytest.mark.parametrize("wrong", [{"guesses": 0}, {"seconds": 0.0}, {"seconds": float("nan")}, {"sites": 0}])
def test_a_limit_that_limits_nothing_is_refused(wrong):
    with pytest.raises(BadInput, match="a limit on guessing"):
        Guessing(**wrong)
