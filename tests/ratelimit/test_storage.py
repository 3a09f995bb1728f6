"""The choice of a storage: the addresses that RATE_LIMIT_STORAGE takes, as the redis library reads them."""

from pathlib import Path

import pytest

from app.ratelimit.shared import ACCEPTED_URL
from app.ratelimit.storage import create_storage
from app.settings import SettingsError
from tests.factories import make_settings

TAKEN = [
    "redis://localhost",
    "redis://:hunter2@cache:6379/0",
    "redis://[2001:db8::1]:6379/",
    "rediss://user:hunter2@cache?ssl_ca_certs=/etc/ssl/ca.pem",
    "redis+unix://:hunter2@/run/redis/redis.sock?db=1",
    "valkey://localhost",
    "valkeys://cache:6379",
    "valkey+unix:///run/valkey.sock",
]
MISREAD = [
    "memory://x",
    "http://:hunter2@cache",
    "localhost:6379",
    "REDIS://cache",
    "redis:",
    "foo+unix:///run/redis.sock",
    "redis://:hunter2@cache:notaport",
    "redis://cache:65536",
    "redis://[::1",
    "redis://:hunter2@cache?patience=none",
]


@pytest.mark.parametrize("address", TAKEN)
def test_an_address_is_taken_and_not_connected_to_before_the_start(tmp_path: Path, address: str) -> None:
    storage = create_storage(make_settings(tmp_path, RATE_LIMIT_STORAGE=address))

    assert (storage.name, storage.is_reachable) == ("redis", False)


@pytest.mark.parametrize("address", MISREAD)
def test_an_address_that_the_library_misreads_is_a_fault_that_shows_no_secret(tmp_path: Path, address: str) -> None:
    with pytest.raises(SettingsError) as fault:
        create_storage(make_settings(tmp_path, RATE_LIMIT_STORAGE=address))

    assert str(fault.value) == f"RATE_LIMIT_STORAGE=(hidden): expected {ACCEPTED_URL}"
