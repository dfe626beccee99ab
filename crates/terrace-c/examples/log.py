"""A log of records, each durable before the next one is written: log.py FILE COUNT. It is read back and compared."""

import ctypes
import os
import sys
import time
from ctypes import POINTER, byref, c_char_p, c_int, c_int64, c_size_t, c_ssize_t, c_uint, c_uint64, c_void_p


class Usage(ctypes.Structure):
    _fields_ = [
        ("direct_calls", c_uint64),
        ("direct_bytes", c_uint64),
        ("mount_calls", c_uint64),
        ("mount_bytes", c_uint64),
        ("why", c_char_p),
    ]


library = ctypes.CDLL("libterrace.so.0", use_errno=True)
for name, result, arguments in [
    ("terrace_open", c_void_p, [c_char_p, c_int, c_uint]),
    ("terrace_pread", c_ssize_t, [c_void_p, c_char_p, c_size_t, c_int64]),
    ("terrace_append", c_ssize_t, [c_void_p, c_char_p, c_size_t, POINTER(c_int64)]),
    ("terrace_sync", c_int, [c_void_p]),
    ("terrace_size", c_int64, [c_void_p]),
    ("terrace_usage", c_int, [c_void_p, POINTER(Usage)]),
    ("terrace_close", c_int, [c_void_p]),
    ("terrace_last_error", c_char_p, []),
]:
    function = getattr(library, name)
    function.restype, function.argtypes = result, arguments


def checked(result):
    """The result of a call, which is None or -1 if it failed."""
    if result is None or result == -1:
        raise OSError(ctypes.get_errno(), library.terrace_last_error().decode(errors="replace"))
    return result


def record(number):
    return f"record {number} ".ljust(63, ".").encode() + b"\n"


def main(path, count):
    log = checked(library.terrace_open(os.fsencode(path), os.O_RDWR | os.O_CREAT, 0o644))
    at = c_int64()
    places = []
    begin = time.monotonic()
    for number in range(count):
        data = record(number)
        checked(library.terrace_append(log, data, len(data), byref(at)))
        checked(library.terrace_sync(log))
        places.append(at.value)
    took = time.monotonic() - begin

    buffer = ctypes.create_string_buffer(64)
    for number, place in enumerate(places):
        n = checked(library.terrace_pread(log, buffer, 64, place))
        if buffer.raw[:n] != record(number):
            sys.exit(f"log: {path}: record {number} is not as it was written")

    usage = Usage()
    checked(library.terrace_usage(log, byref(usage)))
    why = f" ({usage.why.decode()})" if usage.why else ""
    print(f"{count / took:.0f} records per second")
    print(f"{usage.direct_calls} calls went direct, {usage.mount_calls} took the mount{why}")
    checked(library.terrace_close(log))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: log.py FILE COUNT")
    main(sys.argv[1], int(sys.argv[2]))
