//! An import library for libphp: a shared library with libphp's symbols and no code. The executable is linked with it in
//! libphp's place.
//!
//! Every libphp calls itself `libphp.so`, so an executable that is linked with libphp itself loads whatever
//! /usr/lib/libphp.so leads to. The import library calls itself by libphp's path. The executable records that name, and the
//! loader opens a name with a slash by that path alone: no search path, link or variable leads it to another version.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A symbol that a library defines.
pub struct Symbol {
    pub name: String,
    is_function: bool,
    size: u64,
}

/// Section headers of this type describe the dynamic symbols.
const SHT_DYNSYM: u64 = 11;

/// A number of `size` bytes.
fn number(library: &[u8], at: usize, size: usize) -> Option<u64> {
    let bytes = library.get(at..at + size)?;
    Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

/// The dynamic symbols that a library of 64 bits defines. `None`: it is no such library.
pub fn symbols(library: &[u8]) -> Option<Vec<Symbol>> {
    let word = |at, size| number(library, at, size).and_then(|number| usize::try_from(number).ok());
    if !library.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let (table, size, count) = (word(0x28, 8)?, word(0x3a, 2)?, word(0x3c, 2)?);
    let section = |index: usize| table + index * size;
    let dynamic = (0..count).map(section).find(|at| number(library, at + 4, 4) == Some(SHT_DYNSYM))?;
    let (begin, length, entry) = (word(dynamic + 0x18, 8)?, word(dynamic + 0x20, 8)?, word(dynamic + 0x38, 8)?);
    let names = word(section(word(dynamic + 0x28, 4)?) + 0x18, 8)?;
    let mut symbols = Vec::new();
    for at in (begin..begin + length).step_by(entry.max(24)) {
        let (kind, index) = (word(at + 4, 1)? & 15, word(at + 6, 2)?);
        // Objects, functions and functions that are chosen when they are loaded.
        if index == 0 || ![1, 2, 10].contains(&kind) {
            continue;
        }
        let name = library.get(names + word(at, 4)?..)?.split(|byte| *byte == 0).next()?;
        let size = number(library, at + 16, 8)?;
        symbols.push(Symbol { name: String::from_utf8(name.to_vec()).ok()?, is_function: kind != 1, size });
    }
    Some(symbols)
}

/// Makes the import library of these symbols, which calls itself `path`.
pub fn make(compiler: &cc::Tool, symbols: &[Symbol], path: &Path, out: &Path) -> Result<(), String> {
    let mut text = String::from("\t.section .note.GNU-stack,\"\",%progbits\n");
    for (section, is_function) in [(".text", true), (".data", false)] {
        writeln!(text, "\t{section}").map_err(|error| error.to_string())?;
        for symbol in symbols.iter().filter(|symbol| symbol.is_function == is_function) {
            let (name, size) = (&symbol.name, symbol.size);
            let kind = if is_function { "STT_FUNC" } else { "STT_OBJECT" };
            writeln!(text, "\t.globl {name}\n\t.type {name}, {kind}\n\t.size {name}, {size}\n{name}:")
                .map_err(|error| error.to_string())?;
        }
    }
    let source = out.with_extension("s");
    std::fs::write(&source, text).map_err(|error| format!("{}: {error}", source.display()))?;
    let mut command = compiler.to_command();
    command.args(["-shared", "-nostdlib"]).arg(format!("-Wl,-soname,{}", path.display()));
    done(command.arg("-o").arg(out).arg(&source))
}

/// Makes references to these symbols weak in a static library: the loader then starts the executable without them, and the
/// executable says in words that this libphp is not its own. One symbol stays as it is: the linker records no library that
/// only weak references are for.
pub fn weaken(compiler: &cc::Tool, symbols: &[Symbol], kept: &str, library: &Path) -> Result<(), String> {
    let names: Vec<&str> = symbols.iter().map(|symbol| symbol.name.as_str()).filter(|name| *name != kept).collect();
    let list = library.with_extension("weak");
    std::fs::write(&list, names.join("\n")).map_err(|error| format!("{}: {error}", list.display()))?;
    let found = compiler.to_command().arg("--print-prog-name=objcopy").output().map_err(|error| error.to_string())?;
    let objcopy = PathBuf::from(String::from_utf8_lossy(&found.stdout).trim());
    let mut command = Command::new(&objcopy);
    command.arg(format!("--weaken-symbols={}", list.display())).arg(library);
    done(&mut command)
}

fn done(command: &mut Command) -> Result<(), String> {
    match command.output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("{command:?} failed: {}", String::from_utf8_lossy(&output.stderr).trim())),
        Err(error) => Err(format!("{command:?}: {error}")),
    }
}
