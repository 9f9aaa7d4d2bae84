//! Generates the header of `ipc` and PHP's argument descriptions, then compiles csrc against the installed PHP.
//!
//! Environment: `PHP_CONFIG` names another php-config; `PHP_LIBRARY` is the path of a libphp that the compiler does not find,
//! or of another system's, and `PHP_LIBRARY_INSTALLED` the path that it has on that system; `REPRISE_SANITIZE` builds the
//! C part with sanitizers: `address,undefined` with their run-time libraries, which the rewind cannot live with;
//! `undefined-trap` without any: undefined behaviour is an illegal instruction, rewinds are on, and the checks of
//! `csrc/snapshot/checks.h` with them.
//! Profiles that inherit `dev`, such as that of the tests, are built with `undefined-trap` if it says nothing.

use std::env;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, exit};

#[path = "build/import_library.rs"]
mod import_library;

use ipc::control::Isolation;
use ipc::exit::Exit;
use ipc::layout::{Activity, Opcache, Recycle};
use ipc::shared::LEVELS;

fn main() {
    if env::var("CARGO_CFG_TARGET_ENV").as_deref() == Ok("musl") {
        eprintln!("reprise-php: musl lacks functions of GNU libc that it stands before, to see what a request changes");
        eprintln!("hint: build and run Reprise on a system with GNU libc, such as Debian; Alpine is none");
        exit(1);
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR"));
    for watched in [
        "build",
        "csrc",
        "reprise.stub.php",
        "../ipc/src",
        "../data-cache/src",
        "../db-session/src",
        "../direct-calls/src",
    ] {
        println!("cargo:rerun-if-changed={}", here.join(watched).display());
    }
    for variable in ["PHP_CONFIG", "PHP_LIBRARY", "PHP_LIBRARY_INSTALLED", "REPRISE_SANITIZE"] {
        println!("cargo:rerun-if-env-changed={variable}");
    }

    ipc_header(&here.join("../ipc"), &out.join("ipc.h"));
    data_cache_header(&here.join("../data-cache"), &out.join("data_cache.h"));
    db_session_header(&here.join("../db-session"), &out.join("db_session.h"));
    direct_calls_header(&here.join("../direct-calls"), &out.join("direct_calls_ffi.h"));
    let stub = std::fs::read_to_string(here.join("reprise.stub.php")).expect("reprise.stub.php is readable");
    std::fs::write(out.join("arginfo.h"), arginfo(&stub)).expect("OUT_DIR is writable");

    let (major, minor) = php_version();
    let mut build = cc::Build::new();
    build.std("c11").include(&out).warnings(true).extra_warnings(true).flag("-Werror=implicit-function-declaration");
    // zend's headers are not clean of these.
    build.flag("-Wno-unused-parameter").flag("-Wno-sign-compare");
    for flag in php_config("--includes").split_whitespace() {
        build.flag(flag.replace("-I", "-isystem"));
    }
    let sanitizers = sanitizers();
    if !sanitizers.is_empty() {
        sanitize(&mut build, &sanitizers);
    }
    build.define("REPRISE_VERSION", Some(format!("\"{}\"", env!("CARGO_PKG_VERSION")).as_str()));
    let plants = sanitizers == TRAP;
    build.files(sources(&here.join("csrc")).into_iter().filter(|file| plants || !file.ends_with("planted.c")));
    build.compile("reprise_php_c");
    link_libphp(&build.get_compiler(), &format!("libphp{major}.{minor}.so"), &out);
    println!("cargo:rustc-link-arg=-Wl,-z,now");
    sources(&here.join("csrc/interpose")).iter().for_each(|file| export_interposed(file));
}

/// The C files of a directory and of those below it, in an order that does not change.
fn sources(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).expect("the directory is readable");
    let mut all: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry is readable").path()).collect();
    all.sort();
    let below = |path: PathBuf| if path.is_dir() { sources(&path) } else { vec![path] };
    all.into_iter().flat_map(below).filter(|path| path.extension().is_some_and(|extension| extension == "c")).collect()
}

/// The value of `REPRISE_SANITIZE` that needs no run-time library.
const TRAP: &str = "undefined-trap";

/// What `REPRISE_SANITIZE` says. Without it, builds with debug assertions check the C part too, and what is shipped does not.
fn sanitizers() -> String {
    let is_debug = env::var("PROFILE").as_deref() == Ok("debug");
    env::var("REPRISE_SANITIZE").unwrap_or_else(|_| if is_debug { TRAP } else { "" }.to_owned())
}

fn sanitize(build: &mut cc::Build, sanitizers: &str) {
    build
        .flag("-fno-omit-frame-pointer")
        .flag("-g")
        .define("REPRISE_SANITIZERS", Some(format!("\"{sanitizers}\"").as_str()));
    if sanitizers == TRAP {
        let trap = if build.get_compiler().is_like_clang() {
            "-fsanitize-trap=undefined"
        } else {
            "-fsanitize-undefined-trap-on-error"
        };
        build.flag("-fsanitize=undefined").flag(trap).define("REPRISE_CHECKED", None);
        return;
    }
    build.flag(format!("-fsanitize={sanitizers}")).flag("-fno-sanitize-recover=all");
    // Rust links with -nodefaultlibs, so the runtimes are named; ASan's has to come before every other library.
    for (sanitizer, library) in [("address", "asan"), ("undefined", "ubsan")] {
        if sanitizers.contains(sanitizer) {
            println!("cargo:rustc-link-lib=dylib={library}");
        }
    }
}

/// Calls that come before libc's must be in the executable's dynamic table, whether or not libphp names them.
fn export_interposed(source: &Path) {
    let text = std::fs::read_to_string(source).expect("the sources are readable");
    let name = |line: &str| -> Option<String> {
        let rest = match line.strip_prefix("FORWARD_INT(") {
            Some(rest) => rest.split(',').nth(1)?,
            None if line.starts_with("DRAW(") => line.split(',').nth(1)?,
            None if line.starts_with("ATTRIBUTE(") => line.strip_prefix("ATTRIBUTE(")?.split(',').next()?,
            None => line.strip_prefix("PUBLIC ")?.split('(').next()?.rsplit([' ', '*']).next()?,
        };
        Some(rest.trim().to_owned()).filter(|name| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
    };
    for name in text.lines().filter_map(name).filter(|name| name != "name") {
        println!("cargo:rustc-link-arg=-Wl,--export-dynamic-symbol={name}");
    }
}

/// Has the executable load libphp by its path (`import_library`).
fn link_libphp(compiler: &cc::Tool, name: &str, out: &Path) {
    let failed = |why: String| -> ! {
        eprintln!("reprise-php: {name}: {why}");
        eprintln!("hint: apt-get install libphp-embed, or name the library with PHP_LIBRARY");
        exit(1);
    };
    let library = env::var_os("PHP_LIBRARY").map_or_else(|| find_library(compiler, name), PathBuf::from);
    println!("cargo:rerun-if-changed={}", library.display());
    let installed = env::var_os("PHP_LIBRARY_INSTALLED").map_or_else(|| library.clone(), PathBuf::from);
    if !installed.is_absolute() {
        failed("the compiler does not find it".to_owned());
    }
    let file = std::fs::read(&library).unwrap_or_else(|error| failed(error.to_string()));
    let symbols =
        import_library::symbols(&file).unwrap_or_else(|| failed("it is no shared library of 64 bits".to_owned()));
    let import = out.join("import");
    std::fs::create_dir_all(&import).expect("OUT_DIR is writable");
    import_library::make(compiler, &symbols, &installed, &import.join(name))
        .and_then(|()| import_library::weaken(compiler, &symbols, "sapi_startup", &out.join("libreprise_php_c.a")))
        .unwrap_or_else(|why| failed(why));
    println!("cargo:rustc-link-search=native={}", import.display());
    println!("cargo:rustc-link-lib=dylib={}", name.trim_start_matches("lib").trim_end_matches(".so"));
}

/// Where the compiler finds a library. A link in its last part stays: the link of another package leads to another file one day.
fn find_library(compiler: &cc::Tool, name: &str) -> PathBuf {
    let output = compiler.to_command().arg(format!("--print-file-name={name}")).output();
    let found = output.map(|output| PathBuf::from(String::from_utf8_lossy(&output.stdout).trim())).unwrap_or_default();
    let directory = found.parent().and_then(|directory| directory.canonicalize().ok());
    directory.filter(|_| found.is_absolute()).map_or(found, |directory| directory.join(name))
}

fn php_config(question: &str) -> String {
    println!("cargo:rerun-if-changed=/usr/bin/php-config");
    let program = env::var("PHP_CONFIG").unwrap_or_else(|_| "php-config".to_owned());
    match Command::new(&program).arg(question).output() {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        failed => {
            eprintln!("reprise-php: {program} {question} failed: {failed:?}");
            eprintln!("hint: apt-get install php-dev libphp-embed, or name another php-config with PHP_CONFIG");
            exit(1);
        }
    }
}

fn php_version() -> (u32, u32) {
    let id: u32 = php_config("--vernum").parse().unwrap_or(0);
    if !(80200..80600).contains(&id) {
        eprintln!("reprise-php: PHP 8.2 to 8.5 is needed, php-config says {id}");
        exit(1);
    }
    (id / 10000, id / 100 % 100)
}

/// What the headers of all crates have in common.
fn plain_header(guard: &str, of: &str) -> cbindgen::Config {
    let mut config = cbindgen::Config {
        language: cbindgen::Language::C,
        include_guard: Some(guard.to_owned()),
        header: Some(format!("/* Generated from crates/{of}. */")),
        documentation: false,
        cpp_compat: false,
        after_includes: Some("\n#define REPRISE_ALIGNED(n) __attribute__((aligned(n)))\n".to_owned()),
        ..cbindgen::Config::default()
    };
    config.export.prefix = Some(format!("{}_", of.replace('-', "_")));
    config.layout.aligned_n = Some("REPRISE_ALIGNED".to_owned());
    config
}

/// Makes the header of a crate of the files that have functions for C.
fn write_header(config: cbindgen::Config, of: &Path, files: &[&str], target: &Path) {
    let builder = files.iter().fold(cbindgen::Builder::new().with_config(config), |builder, file| {
        builder.with_src(of.join("src").join(file))
    });
    builder.generate().expect("the C header of a crate can be generated").write_to_file(target);
}

fn ipc_header(ipc: &Path, target: &Path) {
    let mut config = plain_header("REPRISE_IPC_H", "ipc");
    config.export.rename.insert("IpcWorker".to_owned(), "worker_state".to_owned());
    config.export.include =
        ["RequestHead", "Variable", "Activity", "Opcache", "Recycle", "Isolation"].map(str::to_owned).to_vec();
    config.after_includes = config.after_includes.map(|lines| lines + &tables());
    config.enumeration.prefix_with_name = true;
    let files = [
        "shared.rs",
        "ffi.rs",
        "head.rs",
        "control/codec.rs",
        "control/names.rs",
        "control/with_forker.rs",
        "layout.rs",
        "response.rs",
    ];
    write_header(config, ipc, &files, target);
}

fn data_cache_header(data_cache: &Path, target: &Path) {
    let mut config = plain_header("REPRISE_DATA_CACHE_H", "data-cache");
    config.export.include = vec!["Word".to_owned()];
    config.export.rename.insert("DataCacheProcess".to_owned(), "process_state".to_owned());
    config.style = cbindgen::Style::Tag;
    write_header(config, data_cache, &["ffi.rs", "ffi/asked.rs", "ffi/lives.rs", "ffi/others.rs", "talk.rs"], target);
}

fn db_session_header(db_session: &Path, target: &Path) {
    let mut config = plain_header("REPRISE_DB_SESSION_H", "db-session");
    config.export.rename.insert("ConnectionState".to_owned(), "state".to_owned());
    config.style = cbindgen::Style::Tag;
    write_header(config, db_session, &["ffi.rs", "reset.rs"], target);
}

fn direct_calls_header(direct_calls: &Path, target: &Path) {
    let mut config = plain_header("REPRISE_DIRECT_CALLS_FFI_H", "direct-calls");
    config.export.prefix = None;
    config.export.rename.insert("DirectCallsPart".to_owned(), "direct_calls_part".to_owned());
    config.export.rename.insert("DirectCallsLibrary".to_owned(), "direct_calls_library".to_owned());
    config.export.rename.insert("DirectCallsProtect".to_owned(), "direct_calls_protect".to_owned());
    config.style = cbindgen::Style::Tag;
    write_header(config, direct_calls, &["ffi.rs"], target);
}

/// What cbindgen does not see: the enums of `ipc::table!`, and lists of words.
fn tables() -> String {
    fn words(name: &str, words: impl Iterator<Item = &'static str>) -> String {
        let words: Vec<String> = words.map(|word| format!("\"{word}\"")).collect();
        format!("#define ipc_{name} {{{}}}\n", words.join(", "))
    }

    fn table(name: &str, rows: impl Iterator<Item = (&'static str, u32)>) -> String {
        let rows: String = rows.map(|(row, number)| format!("  ipc_{name}_{row} = {number},\n")).collect();
        format!("\nenum ipc_{name} {{\n{rows}}};\n")
    }
    let (recycles, activities) = (Recycle::ALL, Activity::ALL);
    table("Recycle", recycles.iter().map(|row| (row.name(), *row as u32)))
        + &table("Activity", activities.iter().map(|row| (row.name(), *row as u32)))
        + &table("Exit", Exit::ALL.iter().map(|row| (row.name(), *row as u32)))
        + &table("Opcache", Opcache::ALL.iter().map(|row| (row.name(), *row as u32)))
        + &format!("\n#define ipc_OPCACHES {}\n", Opcache::ALL.len())
        + &format!("\n#define ipc_RECYCLES {}\n#define ipc_ACTIVITIES {}\n", recycles.len(), activities.len())
        + &words("LEVELS", LEVELS.into_iter())
        + &words("ISOLATIONS", Isolation::ALL.into_iter().map(Isolation::word))
}

/// `function name(type $name = default): type {}` lines become arginfo and the function table.
fn arginfo(stub: &str) -> String {
    let mut text = String::from("/* Generated from reprise.stub.php. */\n");
    let mut table = String::from("static const zend_function_entry reprise_functions[] = {\n");
    let mut alias = None;
    for line in stub.lines().map(str::trim) {
        if let Some(target) = line.strip_prefix("/** @implementation-alias ") {
            alias = target.strip_suffix(" */").map(str::to_owned);
        }
        let Some(rest) = line.strip_prefix("function ") else { continue };
        let (name, rest) = rest.split_once('(').expect("a parameter list in the stub");
        let (parameters, rest) = rest.split_once("): ").expect("a return type in the stub");
        let returns = rest.trim_end_matches(" {}");
        let parameters: Vec<&str> = parameters.split(", ").filter(|parameter| !parameter.is_empty()).collect();
        let required = parameters.iter().filter(|parameter| !parameter.contains('=')).count();
        match returns {
            "array|false" => writeln!(
                text,
                "ZEND_BEGIN_ARG_WITH_RETURN_TYPE_MASK_EX(arginfo_{name}, 0, {required}, MAY_BE_ARRAY | MAY_BE_FALSE)"
            ),
            "int|false" => writeln!(
                text,
                "ZEND_BEGIN_ARG_WITH_RETURN_TYPE_MASK_EX(arginfo_{name}, 0, {required}, MAY_BE_LONG | MAY_BE_FALSE)"
            ),
            returns => writeln!(
                text,
                "ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_{name}, 0, {required}, {}, 0)",
                zend_type(returns)
            ),
        }
        .expect("a String takes everything");
        for parameter in parameters {
            let (declared, default) = parameter.split_once(" = ").map_or((parameter, None), |(d, v)| (d, Some(v)));
            let (kind, variable) = declared.split_once(" $").expect("a typed parameter in the stub");
            let (kind, is_nullable) = kind.strip_prefix('?').map_or((kind, 0), |kind| (kind, 1));
            match default {
                None => writeln!(text, "\tZEND_ARG_TYPE_INFO(0, {variable}, {}, {is_nullable})", zend_type(kind)),
                Some(value) => writeln!(
                    text,
                    "\tZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, {variable}, {}, {is_nullable}, \"{value}\")",
                    zend_type(kind)
                ),
            }
            .expect("a String takes everything");
        }
        text.push_str("ZEND_END_ARG_INFO()\n");
        let target = alias.take().unwrap_or_else(|| name.to_owned());
        if target == name {
            writeln!(text, "ZEND_FUNCTION({name});").expect("a String takes everything");
        }
        writeln!(table, "\tZEND_NAMED_FE({name}, zif_{target}, arginfo_{name})").expect("a String takes everything");
    }
    text + &table + "\tZEND_FE_END\n};\n"
}

fn zend_type(name: &str) -> &'static str {
    match name {
        "bool" => "_IS_BOOL",
        "int" => "IS_LONG",
        "string" => "IS_STRING",
        "array" => "IS_ARRAY",
        "callable" => "IS_CALLABLE",
        "void" => "IS_VOID",
        "mixed" => "IS_MIXED",
        "float" => "IS_DOUBLE",
        other => panic!("the stub uses a type that build.rs does not know: {other}"),
    }
}
