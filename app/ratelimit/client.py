"""The key that the limiter counts a client under: its address, as far as the trusted proxies vouch for it."""

import socket

_IPV4_IN_IPV6 = bytes(10) + b"\xff\xff", b"\x00\x64\xff\x9b" + bytes(8)
"""The prefixes of an IPv6 address that is an IPv4 one: mapped (RFC 4291, 2.5.5.2), or of NAT64 (RFC 6052, 2.1)."""
_IPV4_BYTES = 4
_IPV6_PREFIX_BYTES = 8


def client_key(remote_address: str, forwarded_for: str, trusted_proxies: int) -> bytes:
    """The key that a request is counted under: an IPv4 address whole, an IPv6 one by its /64.

    ``forwarded_for`` is the whole X-Forwarded-For field. The entry that the outermost trusted proxy added counts. When
    there is no such entry, or it is not an address, the address of the connection counts. An entry further left never
    does, because the client can write there what it likes.
    """
    entry = forwarded_entry(forwarded_for, trusted_proxies)
    key = (_pack(entry) if entry else None) or _pack(remote_address)
    return remote_address.encode(errors="replace") if key is None else key


def forwarded_entry(field: str, trusted_proxies: int) -> str:
    """The entry of an X-Forwarded-* field that the outermost trusted proxy added; empty when there is none."""
    # Split from the right: a client can send hundreds of thousands of entries, and they stand on the left.
    entries = field.rsplit(",", trusted_proxies)
    return entries[-trusted_proxies].strip() if 0 < trusted_proxies <= len(entries) else ""


def truncated(key: bytes) -> str:
    """A client's network as the log may show it: /24 for IPv4, /48 for IPv6."""
    if len(key) == _IPV4_BYTES:
        return f"{key[0]}.{key[1]}.{key[2]}.0/24"
    if len(key) == _IPV6_PREFIX_BYTES:
        return f"{socket.inet_ntop(socket.AF_INET6, key[:6] + bytes(10))}/48"
    return "-"


def _pack(address: str) -> bytes | None:
    """The bytes of an address, less the quotes, brackets, port and zone that some proxies add; None if it is none."""
    address = address.strip().strip('" ')
    if address.startswith("["):
        address = address[1:].partition("]")[0]
    elif address.count(":") == 1:
        address = address.partition(":")[0]
    address = address.partition("%")[0]
    try:
        if ":" not in address:
            return socket.inet_pton(socket.AF_INET, address)
        packed = socket.inet_pton(socket.AF_INET6, address)
    except (OSError, ValueError):
        return None
    return packed[12:] if packed.startswith(_IPV4_IN_IPV6) else packed[:_IPV6_PREFIX_BYTES]
