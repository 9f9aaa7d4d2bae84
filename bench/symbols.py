"""Which function an address of a library or program belongs to.

Distributions strip their libraries: what is left are the names of exported functions, and, for exceptions, a table of where each
function begins (.eh_frame_hdr). The latter keeps a function without a name from being taken for the named one before it. Names that
are missing are taken from debug symbols (/usr/lib/debug), if they are installed.
"""

from __future__ import annotations

import bisect
import struct
from dataclasses import dataclass, field
from pathlib import Path

DEBUG = Path("/usr/lib/debug/.build-id")
FUNCTION_TYPES = (2, 10)  # STT_FUNC, STT_GNU_IFUNC
SYMBOL_TABLES = (2, 11)  # SHT_SYMTAB, SHT_DYNSYM
LOAD = 1
SDATA4_RELATIVE, UDATA4 = 0x3B, 0x03  # DW_EH_PE_…


@dataclass(frozen=True)
class Section:
    name: str
    kind: int
    address: int
    offset: int
    size: int
    link: int


@dataclass
class Functions:
    """First addresses in ascending order, with the name of each, or none."""

    starts: list[int] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    base: int = 0  # the address of the file's first byte, before relocation

    def at(self, address: int) -> tuple[int, str]:
        """The function's first address and its name, which is empty if it is not known."""
        found = bisect.bisect_right(self.starts, address) - 1
        return (self.starts[found], self.names[found]) if found >= 0 else (address, "")

    def named_before(self, address: int) -> str:
        found = bisect.bisect_right(self.starts, address) - 1
        while found >= 0 and not self.names[found]:
            found -= 1
        return self.names[found] if found >= 0 else ""


class Elf:
    """What is needed of a 64-bit little-endian file."""

    def __init__(self, data: bytes) -> None:
        if data[:6] != b"\x7fELF\x02\x01":
            raise ValueError("no 64-bit little-endian ELF file")
        self.data = data
        programs, sections = struct.unpack_from("<QQ", data, 32)
        size, count, section_size, section_count, names = struct.unpack_from("<5H", data, 54)
        # (type, offset, address, size in the file)
        self.segments: list[tuple[int, int, int, int]] = []
        for i in range(count):
            kind, _flags, offset, address, _physical, length = struct.unpack_from("<IIQQQQ", data, programs + i * size)
            self.segments.append((kind, offset, address, length))
        rows = [struct.unpack_from("<IIQQQQI", data, sections + i * section_size) for i in range(section_count)]
        strings = rows[names][4] if section_count else 0
        self.sections = [Section(self._string(strings + name), kind, address, offset, length, link)
                         for name, kind, _flags, address, offset, length, link in rows]

    def _string(self, at: int) -> str:
        return self.data[at:self.data.index(b"\0", at)].decode(errors="replace")

    def section(self, name: str) -> Section | None:
        return next((one for one in self.sections if one.name == name), None)

    def address_of(self, offset: int) -> int | None:
        """The address, before relocation, of what lies there in the file."""
        return next((address + offset - begin for kind, begin, address, size in self.segments
                     if kind == LOAD and begin <= offset < begin + size), None)

    def tables_of_jumps(self) -> dict[int, str]:
        """The entries through which calls lead to other libraries have no names of their own."""
        return {one.address: "(jumps to other libraries)" for one in self.sections if one.name.startswith(".plt")}

    def build_id(self) -> str:
        note = self.section(".note.gnu.build-id")
        return self.data[note.offset + 16:note.offset + note.size].hex() if note else ""

    def symbols(self) -> dict[int, str]:
        """Names of functions by first address. Of several names for one the shortest without leading underscores wins."""
        found: dict[int, str] = {}
        for table in self.sections:
            if table.kind not in SYMBOL_TABLES or not table.size:
                continue
            strings = self.sections[table.link].offset
            for at in range(table.offset, table.offset + table.size, 24):
                name, info, _other, index, value, _size = struct.unpack_from("<IBBHQQ", self.data, at)
                if info & 15 not in FUNCTION_TYPES or not index or not value:
                    continue
                text = self._string(strings + name)
                if value not in found or _rank(text) < _rank(found[value]):
                    found[value] = text
        return found

    def starts(self) -> list[int]:
        """Where functions begin, by .eh_frame_hdr; empty if its encoding is another than compilers use."""
        header = self.section(".eh_frame_hdr")
        if header is None or header.size < 12:
            return []
        version, _frame, count_encoding, table_encoding = struct.unpack_from("<4B", self.data, header.offset)
        if (version, count_encoding, table_encoding) != (1, UDATA4, SDATA4_RELATIVE):
            return []
        (count,) = struct.unpack_from("<I", self.data, header.offset + 8)
        rows = struct.iter_unpack("<ii", self.data[header.offset + 12:header.offset + 12 + 8 * count])
        return [header.address + start for start, _ in rows]


def _rank(name: str) -> tuple[int, int, str]:
    return len(name) - len(name.lstrip("_")), len(name), name


def functions(path: Path, debug: Path = DEBUG) -> Functions:
    """Of a file, with the names of its debug symbols if they are there; none of what is no ELF file."""
    try:
        elf = Elf(path.read_bytes())
    except (OSError, ValueError, struct.error):
        return Functions()
    names = elf.symbols()
    build_id = elf.build_id()
    try:
        names = {**Elf((debug / build_id[:2] / f"{build_id[2:]}.debug").read_bytes()).symbols(), **names}
    except (OSError, ValueError, struct.error):
        pass
    names = {**elf.tables_of_jumps(), **names}
    starts = sorted({*names, *elf.starts()})
    return Functions(starts, [names.get(start, "") for start in starts], elf.address_of(0) or 0)
