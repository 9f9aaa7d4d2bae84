"""Self-test of scripts/circles and scripts/named: they find what is planted, and nothing else."""

from __future__ import annotations

import sys
import tempfile
import unittest
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

sys.dont_write_bytecode = True


def load(name: str) -> ModuleType:
    path = Path(__file__).resolve().parents[1] / name
    spec = spec_from_loader(name, SourceFileLoader(name, str(path)))
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


circles, named = load("circles"), load("named")


def found(files: dict[str, str]) -> list[list[str]]:
    """The circles of a crate with these files."""
    with tempfile.TemporaryDirectory() as directory:
        for name, text in files.items():
            path = Path(directory, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        graphs = circles.Crate(str(Path(directory, "lib.rs"))).levels().values()
        return sorted(["::".join(member) for member in members] for graph in graphs for members in circles.circles(graph))


ROOT = "mod a; mod b;"


class OfC(unittest.TestCase):
    def findings(self, listing: str) -> list[str]:
        sources = {"low": "core/low.c", "taker": "interpose/taker.c", "high": "request/high.c", "other": "request/other.c"}
        return list(circles.Objects(sources, listing).findings())

    def test_one_direction_is_none(self) -> None:
        listing = "1-low.o:\n0 T reprise_low\n\n2-taker.o:\n U reprise_low\n0 T write\n0 T interpose_take\n\n" \
                  "3-high.o:\n U write\n U interpose_take\n U reprise_low\n U malloc\n0 T request_high\n0 t anything\n0 T zif_reprise_high\n"
        self.assertEqual(self.findings(listing), [])
        # A name of libc is libc's to who calls it.
        self.assertEqual(self.findings(listing.replace("0 T reprise_low", " U write\n0 T reprise_low")), [])

    def test_what_uses_a_higher_floor_is_found(self) -> None:
        found = self.findings("1-low.o:\n U request_high\n0 T reprise_low\n\n3-high.o:\n0 T request_high\n")
        self.assertEqual(found, ["core/low.c uses request/high.c, which is not below it: request_high"])

    def test_a_circle_within_a_folder_is_found(self) -> None:
        found = self.findings("3-high.o:\n U request_other\n0 T request_high\n\n4-other.o:\n U request_high\n0 T request_other\n")
        self.assertEqual(found, ["a circle of request/high.c, request/other.c", "  request/high.c uses request/other.c: request_other",
                                 "  request/other.c uses request/high.c: request_high"])

    def test_a_symbol_without_its_folder_is_found(self) -> None:
        self.assertEqual(self.findings("3-high.o:\n0 T reprise_high\n"), ["request/high.c: reprise_high does not begin with request_"])


class OfPython(unittest.TestCase):
    def test_imports_of_every_form_are_seen(self) -> None:
        for use in ("import a", "from a import f", "def g():\n    import a", "from package import inner", "import package.inner"):
            with self.subTest(use), tempfile.TemporaryDirectory() as directory:
                Path(directory, "package").mkdir()
                for name, text in {"a.py": "import b", "b.py": use, "package/__init__.py": "", "package/inner.py": "import b"}.items():
                    Path(directory, name).write_text(text)
                self.assertEqual([len(circle) for circle in circles.circles(circles.python_graph(directory))], [2])


class Circles(unittest.TestCase):
    def test_uses_of_every_form_are_seen(self) -> None:
        for use in ("use crate::a::A;", "use crate::{a::{A}};", "use super::a::A as Other;", "fn f() { crate::a::f() }",
                    "fn f() { super::a::A::new() }", "use crate::a; fn f() { a::f() }", "use crate::a::*;",
                    "mod inner { use super::super::a::A; }", "fn f(x: &'static crate::a::A) {}"):
            with self.subTest(use):
                self.assertEqual(found({"lib.rs": ROOT, "a.rs": "use crate::b::B; pub struct A;", "b.rs": "pub struct B; " + use}), [["a", "b"]])

    def test_what_is_no_use_is_none(self) -> None:
        for text in ("// use crate::a::A;", "/* crate::a::f() */", 'const X: &str = "crate::a::f()";', 'const X: &str = r#"crate::a"#;',
                     "#[cfg(test)] mod tests { use crate::a::A; }", "#[cfg(test)] use crate::a::A;", "use std::a::A;", "use ::a::A;",
                     "fn f(a: char) { a == '\"'; g('c', b'\\'') }"):
            with self.subTest(text):
                self.assertEqual(found({"lib.rs": ROOT, "a.rs": "use crate::b::B; pub struct A;", "b.rs": "pub struct B; " + text}), [])

    def test_the_module_that_defines_counts(self) -> None:
        files = {"lib.rs": "mod a; mod b; mod c; pub use a::A;", "a.rs": "pub struct A;", "b.rs": "pub use crate::A;", "c.rs": "use crate::b::A;"}
        self.assertEqual(found(files), [])
        files["a.rs"] = "use crate::c::f; pub struct A;"
        self.assertEqual(found(files), [["a", "c"]], "b only says where A is, and c uses A")

    def test_a_module_stands_for_what_is_below_it(self) -> None:
        files = {"lib.rs": ROOT, "a.rs": "mod part; pub struct A;", "a/part.rs": "use crate::b::B; use super::A;", "b.rs": "use crate::a::A; pub struct B;"}
        self.assertEqual(found(files), [["a", "b"]])
        files["b.rs"] = "pub struct B;"
        files["a.rs"] = "mod part; pub struct A; fn f() { part::g() }"
        self.assertEqual(found(files), [], "a parent and its child")

    def test_the_root_is_no_parent(self) -> None:
        self.assertEqual(found({"lib.rs": "mod a; struct R; fn f() { a::g() }", "a.rs": "use crate::R;"}), [["", "a"]])


class Named(unittest.TestCase):
    def test_names(self) -> None:
        sources = named.Sources.__new__(named.Sources)
        sources.files = ["crates/x/src/lane.rs", "crates/y/csrc/boot/loop.c"]
        sources.code = {"crates/x/src/lane.rs": "impl Lane { fn post() {} }\nstruct Slot;",
                        "crates/y/csrc/boot/loop.c": "static void run_loop(int a)\n{\n}\nvoid declared(int);\n"}
        sources.words = {"max_age", "Slot", "run_loop"}
        for name in ("Lane::post", "lane::Lane::post", "x::lane", "lane::Slot", "loop.c: run_loop", "boot/loop.c: run_loop", "loop.c",
                     "boot/loop.c", "csrc/boot", "max_age", "Slot", "run_loop()", "threads", "/dev/null", "--audit"):
            self.assertIsNone(named.wrong(sources, name), name)
        for name in ("Lane::get", "lanes::Lane::post", "Other::post", "loop.c: other", "loop.c: declared", "other.c", "csrc/other",
                     "min_age", "Gone", "gone()"):
            self.assertIsNotNone(named.wrong(sources, name), name)

    def test_tables(self) -> None:
        text = ("## Where unsafe lives\n\n| where | why |\n|---|---|\n| `x::sys`, `x::gone` | mapping |\n\n"
                "## Crates\n\n| crate | what | may use |\n|---|---|---|\n| `x` | a | core |\n| `y` | b | x; not z |\n")
        code = {"crates/x/src/lib.rs": "", "crates/x/src/sys/raw.rs": "unsafe { f() }", "crates/x/src/ffi.rs": "#[unsafe(no_mangle)] fn f() {}",
                "crates/x/src/own.rs": "#[cfg(test)]\nmod tests { fn f() { unsafe { g() } } }", "crates/y/src/lib.rs": "mod a;"}
        self.assertEqual(list(named.wrong_unsafe(text, code)), [
            "x::ffi has unsafe code, and the table does not name it", "x::gone has no unsafe code", "crates/y/src/lib.rs does not forbid unsafe code"])
        self.assertEqual(list(named.wrong_crates(text, {"x": {}, "y": {"dependencies": {"x": {}}}})), [])
        self.assertEqual(list(named.wrong_crates(text, {"x": {"dependencies": {"z": {}}}, "y": {"build-dependencies": {"x": {}}}, "z": {}})), [
            "z has no row in the table of crates", "the crate x uses z; its row names no other"])


if __name__ == "__main__":
    unittest.main()
