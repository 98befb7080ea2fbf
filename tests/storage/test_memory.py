"""The memory of a process and its limit, from the texts in which Linux tells them."""

from __future__ import annotations

import pytest

from penstock.storage.memory import bytes_of, least_limit, limit_files, memory_limit, resident_bytes

MEMINFO = "MemTotal:       16000000 kB\nMemFree:         1000000 kB\nSwapTotal:             0 kB\n"
STATUS = "Name:\tpython\nVmPeak:\t  999999 kB\nVmHWM:\t  300000 kB\nVmRSS:\t  200000 kB\nRssAnon:\t  150000 kB\n"
MACHINE = 16_000_000 * 1024


def test_a_field_is_told_in_kibibytes() -> None:
    assert bytes_of("VmRSS", STATUS) == 200_000 * 1024
    assert bytes_of("MemTotal", MEMINFO) == MACHINE
    assert bytes_of("VmRSS", "") == 0


@pytest.mark.parametrize(
    ("groups", "files"),
    [
        ("0::/\n", ["memory.max"]),
        ("0::/a/b\n", ["a/b/memory.max", "a/memory.max", "memory.max"]),
        (
            "5:cpu,cpuacct:/c\n4:memory:/d\n1:name=systemd:/e\n0::/\n",
            ["memory/d/memory.limit_in_bytes", "memory/memory.limit_in_bytes", "memory.max"],
        ),
        ("3:cpu,memory:/\n", ["memory/memory.limit_in_bytes"]),
        ("0::/pod:1/x\n", ["pod:1/x/memory.max", "pod:1/memory.max", "memory.max"]),
        ("", []),
    ],
    ids=["at the root", "nested", "version 1", "with others", "a colon", "elsewhere"],
)
def test_where_a_limit_may_be(groups: str, files: list[str]) -> None:
    assert limit_files(groups) == files


@pytest.mark.parametrize(
    ("limits", "least"),
    [
        ([], MACHINE),
        (["max\n", "2147483648\n"], 2**31),
        (["4294967296\n", "2147483648\n", "max\n"], 2**31),
        (["9223372036854771712\n"], MACHINE),  # how version 1 writes that there is none
        (["", "max\n"], MACHINE),
    ],
)
def test_the_least_limit_holds(limits: list[str], least: int) -> None:
    assert least_limit(MEMINFO, limits) == least


def test_without_the_files_of_linux_nothing_is_known() -> None:
    assert least_limit("", []) == 0
    assert least_limit("", ["1024\n"]) == 1024


def test_this_process_has_less_in_memory_than_it_may() -> None:
    assert 0 < resident_bytes() < memory_limit()
