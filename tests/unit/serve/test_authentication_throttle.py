"""Wrong keys from one site are few, and remembering them takes little memory."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.serve.authentication import KeyThrottle, site_of


class Seconds:
    """A clock that is set by hand."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def seconds():
    return Seconds()


def fail(throttle, address, times):
    for _ in range(times):
        throttle.failed(address)


def test_after_ten_wrong_keys_the_eleventh_waits_six_seconds(seconds):
    throttle = KeyThrottle(clock=seconds)
    for _ in range(10):
        assert throttle.wait("192.0.2.1") == 0.0
        throttle.failed("192.0.2.1")
    assert throttle.wait("192.0.2.1") == pytest.approx(6.0)
    seconds.now = 6.0
    assert throttle.wait("192.0.2.1") == pytest.approx(0.0)
    throttle.failed("192.0.2.1")
    assert throttle.wait("192.0.2.1") == pytest.approx(6.0)


def test_right_keys_are_never_counted(seconds):
    throttle = KeyThrottle(clock=seconds)
    assert [throttle.wait("192.0.2.1") for _ in range(1000)] == [0.0] * 1000
    assert len(throttle._buckets) == 0


def test_other_sites_do_not_wait(seconds):
    throttle = KeyThrottle(clock=seconds)
    fail(throttle, "192.0.2.1", 30)
    assert throttle.wait("192.0.2.1") > 0
    assert throttle.wait("192.0.2.2") == 0.0
    assert throttle.wait("2001:db8::1") == 0.0


def test_all_addresses_of_one_ipv6_network_are_one_site(seconds):
    throttle = KeyThrottle(clock=seconds)
    for number in range(10):
        throttle.failed(f"2001:db8:1:2::{number:x}")
    assert throttle.wait("2001:0DB8:1:2:ffff::9") > 0
    assert throttle.wait("2001:db8:1:3::1") == 0.0
    assert len(throttle._buckets) == 1


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
    throttle = KeyThrottle(sites=100, clock=seconds)
    fail(throttle, "192.0.2.1", 10)
    for number in range(99):
        throttle.failed(f"198.51.100.{number}")
    assert throttle.wait("192.0.2.1") > 0
    throttle.failed("192.0.2.1")  # its last guess is now the newest
    for number in range(99):
        throttle.failed(f"203.0.113.{number}")
    assert throttle.wait("192.0.2.1") > 0
    for number in range(10_000):
        throttle.failed(f"2001:db8:{number:x}::1")
        assert len(throttle._buckets) <= 100
    assert len(throttle._buckets) == 100
    assert throttle.wait("192.0.2.1") == 0.0


def test_who_guesses_very_many_waits_two_fillings_at_most(seconds):
    throttle = KeyThrottle(guesses=10, seconds=60.0, clock=seconds)
    fail(throttle, "192.0.2.1", 10_000)
    assert throttle.wait("192.0.2.1") == pytest.approx(66.0)
    seconds.now = 66.0
    assert throttle.wait("192.0.2.1") == pytest.approx(0.0)


@given(st.integers(1, 20), st.floats(1.0, 100.0), st.lists(st.floats(0.0, 30.0), max_size=60))
def test_no_more_wrong_keys_are_looked_at_than_the_bucket_holds_and_gains(guesses, length, pauses):
    clock = Seconds()
    throttle = KeyThrottle(guesses=guesses, seconds=length, clock=clock)
    looked_at = 0
    for pause in pauses:
        clock.now += pause
        if throttle.wait("192.0.2.1") == 0.0:
            looked_at += 1
            throttle.failed("192.0.2.1")
    assert looked_at <= guesses + clock.now * guesses / length + 1e-6


def test_threads_count_together():
    throttle = KeyThrottle(guesses=1000, seconds=1e9, sites=10)
    threads = [threading.Thread(target=fail, args=(throttle, "192.0.2.1", 125)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert throttle.wait("192.0.2.1") == pytest.approx(1e6, rel=1e-3)  # of 1,000 guesses none is left
