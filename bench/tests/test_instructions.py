"""Self-test of counting instructions: names of functions, tables, and the program that steps."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import instruction_counts
import single_step
import symbols
from failure import Failure
from instruction_counts import Counts, Raw, Resolver
from symbols import Functions

MAPS = """\
555500000000-555500001000 r--p 00000000 fe:00 12 /usr/bin/reprise-php
555500001000-555500003000 r-xp 00001000 fe:00 12 /usr/bin/reprise-php
7f0000000000-7f0000001000 rw-p 00000000 00:00 0
7f0000002000-7f0000004000 r-xp 00002000 fe:00 13 /usr/lib/libphp8.2.so (deleted)
7ffff7fc0000-7ffff7fc2000 r-xp 00000000 00:00 0 [vdso]
"""
PROGRAM = """\
#include <stdlib.h>
#include <unistd.h>
static int __attribute__((noinline)) hidden(int n) { __asm__ volatile(""); return n + 1; }
int __attribute__((noinline)) shown(int n) { int m = n; for (int i = 0; i < 10; i++) m = hidden(m); return m; }
int main(void) { char byte; while (read(0, &byte, 1) == 1) { if (shown(byte) == 7) return 3; getppid(); } return 0; }
"""


def table(path: Path) -> Functions:
    return Functions([0x1000, 0x1800, 0x2100], ["first", "", "third"]) if "reprise" in path.name else Functions([0x2000], ["php"])


class Names(unittest.TestCase):
    def test_functions_of_mappings(self) -> None:
        resolver = Resolver(MAPS, table)
        self.assertEqual(resolver.function(0x555500001004), ("reprise-php", "first"))
        self.assertEqual(resolver.function(0x555500002100), ("reprise-php", "third"))
        self.assertEqual(resolver.function(0x7f0000003000), ("libphp", "php"))
        self.assertEqual(resolver.without_names, set())
        self.assertEqual(resolver.function(0x7f0000000010)[0], "no file")
        self.assertEqual(resolver.function(0x10), ("no file", "(unmapped)"))
        self.assertEqual(resolver.function(0x7ffff7fc0010), ("vdso", "[vdso]"))

    def test_a_function_without_a_name_is_not_the_one_before(self) -> None:
        resolver = Resolver(MAPS, table)
        self.assertEqual(resolver.function(0x555500001900), ("reprise-php", "? 0x1800, after first"))
        self.assertEqual(resolver.without_names, {"reprise-php"})

    def test_objects(self) -> None:
        for path, name in (("/usr/lib/libphp8.2.so", "libphp"), ("/lib/libc.so.6", "libc"), ("/usr/lib/php/pdo_sqlite.so", "pdo_sqlite"),
                           ("/memfd:image", "no file"), ("", "no file"), ("[stack]", "no file"), ("/usr/bin/reprise-php", "reprise-php")):
            self.assertEqual(instruction_counts.object_name(path), name)

    def test_what_is_no_program_has_no_functions(self) -> None:
        self.assertEqual(symbols.functions(Path(__file__)).starts, [])


class Tables(unittest.TestCase):
    def counts(self, **functions: int) -> Counts:
        counts = Counts()
        counts.functions.update({("libphp", name): number for name, number in functions.items()})
        return counts

    def test_parsed(self) -> None:
        raw = instruction_counts.parse(["i 1f 3", "i 20 4", "s 27 2", "c 0 1f 2 700"])
        self.assertEqual(raw, Raw(raw.instructions, raw.calls, {(0, 0x1f): (2, 700)}))
        self.assertEqual((raw.instructions[0x1f], raw.calls[0x27]), (3, 2))
        with self.assertRaises(ValueError):
            instruction_counts.parse(["x 1"])

    def test_the_request_in_the_middle(self) -> None:
        found = [self.counts(a=number) for number in (50, 10, 30)]
        self.assertEqual(instruction_counts.median(found).total, 30)

    def test_largest_difference_first(self) -> None:
        sides = [self.counts(same=900, more=10, less=70), self.counts(same=900, more=1010, less=20)]
        self.assertEqual(instruction_counts.function_rows(sides, 2), [
            ["libphp", "more", "10", "1,010", "+1,000"], ["libphp", "less", "70", "20", "-50"]])
        self.assertEqual(instruction_counts.object_rows(sides), [
            ["libphp", "980", "1,930", "+950"], ["all", "980", "1,930", "+950"]])

    def test_system_calls(self) -> None:
        raw = instruction_counts.parse(["s 27 2", "s 3ff 1"])
        counts = instruction_counts.resolve(raw, Resolver(MAPS, table), {0x27: "getpid"})
        self.assertEqual(instruction_counts.system_call_rows([counts]), [
            ["getpid", "2", "+0"], ["number 1023", "1", "+0"], ["all", "3", "+0"]])

    def test_callers(self) -> None:
        raw = instruction_counts.parse([f"c {0x555500001004:x} {0x555500002100:x} 2 700", f"c {0x555500001000:x} {0x555500002108:x} 1 5"])
        counts = instruction_counts.resolve(raw, Resolver(MAPS, table), {})
        self.assertEqual(instruction_counts.caller_rows([counts], "third", 9), [["reprise-php", "first", "3 / 705", "+0"]])


class Stepping(unittest.TestCase):
    """A small program that waits for a byte."""

    def setUp(self) -> None:
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.place = Path(place.name)
        (self.place / "a.c").write_text(PROGRAM)
        subprocess.run(["cc", "-O1", "-o", str(self.place / "a"), str(self.place / "a.c")], check=True)

    def start(self) -> subprocess.Popen[bytes]:
        child = subprocess.Popen([str(self.place / "a")], stdin=subprocess.PIPE)
        self.addCleanup(child.wait)
        self.addCleanup(child.stdin.close if child.stdin else lambda: None)
        return child

    def request(self, stepper: single_step.SingleStep, child: subprocess.Popen[bytes], byte: bytes) -> int:
        stepper.begin()
        assert child.stdin
        child.stdin.write(byte)
        child.stdin.flush()
        return stepper.until_idle(lambda _: None)

    def test_each_request_is_counted_alike(self) -> None:
        child = self.start()
        with single_step.SingleStep(single_step.build(self.place), child.pid) as stepper:
            resolver = Resolver(Path(f"/proc/{child.pid}/maps").read_text())
            found = []
            for number in range(3):
                steps = self.request(stepper, child, b"a")
                stepper.write(self.place / "out")
                raw = instruction_counts.parse((self.place / "out").read_text().splitlines())
                found.append(instruction_counts.resolve(raw, resolver, instruction_counts.system_call_names()))
                self.assertEqual(found[-1].total, steps)
        # The first one also binds the functions of libc.
        self.assertEqual(found[1].functions, found[2].functions)
        last = found[2]
        self.assertEqual(last.callers[("a", "shown"), ("a", "hidden")][0], 10)
        self.assertEqual(last.callers[instruction_counts.LOOP, ("a", "shown")], (1, last.functions["a", "shown"] + last.functions["a", "hidden"]))
        self.assertEqual(last.system_calls, {"read": 1, "getppid": 1})
        assert child.stdin
        child.stdin.close()
        self.assertEqual(child.wait(10), 0)  # it goes on when it is let go

    def test_a_worker_that_ends_is_a_failure(self) -> None:
        child = self.start()
        with single_step.SingleStep(single_step.build(self.place), child.pid) as stepper:
            with self.assertRaises(Failure) as caught:
                self.request(stepper, child, bytes([253]))  # read as -3, and ten more are 7
        self.assertIn("ended 3", str(caught.exception))

    def test_who_may_not_look_is_told_what_mends_it(self) -> None:
        self.assertIn("--cap-add SYS_PTRACE", single_step.hint("failed the worker cannot be seized: Operation not permitted"))
        self.assertEqual(single_step.hint("failed the worker cannot be seized: No such process"), "")
        with self.assertRaises(Failure):
            single_step.SingleStep(single_step.build(self.place), 2 ** 22 + 1).__enter__()


if __name__ == "__main__":
    unittest.main()
