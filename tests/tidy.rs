//! The shape of the code: who may use whom, what the engine may not touch, how long things may get.

use std::fs;
use std::path::{Path, PathBuf};

/// Each module of `src/` and the modules that it may use. To add an arrow, change its row in a commit of its own.
const ARROWS: [(&str, &[&str]); 10] = [
    ("engine", &[]),
    ("profile", &["engine"]),
    ("drive", &["engine"]),
    ("net", &["drive", "engine"]),
    ("store", &["drive", "engine"]),
    ("measure", &["drive", "net", "profile", "engine"]),
    ("probe", &["drive", "net", "profile", "engine"]),
    ("rehearse", &["drive", "net", "store", "profile", "engine"]),
    ("report", &["engine"]),
    ("cli", &["report", "rehearse", "measure", "probe", "drive", "net", "store", "profile", "engine"]),
];

/// Crates that only some modules may use.
const CRATES: [(&str, &[&str]); 21] = [
    ("hdrhistogram", &["measure"]),
    ("flate2", &["measure"]),
    ("reqwest", &["net"]),
    ("hyper", &["net"]),
    ("hyper_util", &["net"]),
    ("p12_keystore", &["net"]),
    ("pkcs8", &["net"]),
    ("rustls", &["net"]),
    ("rustls_native_certs", &["net"]),
    ("tokio_rustls", &["net"]),
    ("x509_parser", &["net"]),
    ("tower_layer", &["net"]),
    ("tower_service", &["net"]),
    ("comfy_table", &["report", "cli"]),
    ("indicatif", &["report", "cli"]),
    ("clap", &["cli"]),
    ("anyhow", &["cli"]),
    ("nix", &["store", "net", "cli"]),
    ("toml", &["profile"]),
    ("toml_edit", &["profile"]),
    ("tokio", &["net", "store", "measure", "probe", "rehearse", "cli"]),
];

/// What reaches for the world: the engine may not.
const BANNED_IN_ENGINE: [&str; 16] = [
    "std::fs",
    "std::env",
    "std::process",
    "std::thread",
    "std::net::TcpStream",
    "std::net::TcpListener",
    "std::net::UdpSocket",
    "Instant",
    "SystemTime",
    "async fn",
    "async move",
    "await",
    "rand",
    "fastrand",
    "getrandom",
    "tokio",
];
/// What only the binary side does: printing, ending the process, reading arguments and environment.
const BANNED_IN_LIBRARY: [&str; 7] =
    ["println!", "eprintln!", "print!", "eprint!", "dbg!", "std::env", "std::process::exit"];

/// Names that say nothing about what is inside.
const BANNED_MODULES: [&str; 7] = ["util", "utils", "common", "helper", "helpers", "types", "misc"];

const FUNCTION_LINES: usize = 60;
/// Lines of a file before its tests.
const FILE_LINES: usize = 400;

/// A file of the package, by its path from the root, with its text.
struct Source {
    path: String,
    text: String,
}

impl Source {
    /// Returns the module under `src/` that the file belongs to; empty for `lib.rs`, `main.rs` and what is not in `src/`.
    fn module(&self) -> &str {
        let inside = self.path.strip_prefix("src/").unwrap_or("");
        let top = inside.split('/').next().unwrap_or("");
        match top.strip_suffix(".rs") {
            Some("lib" | "main") => "",
            Some(name) => name,
            None => top,
        }
    }

    /// Returns how many modules deep the file is: 1 for `src/net/mod.rs` and `src/net.rs`.
    fn depth(&self) -> usize {
        let inside = self.path.strip_prefix("src/").unwrap_or("").trim_end_matches(".rs").trim_end_matches("/mod");
        inside.split('/').count()
    }

    fn is_test(&self) -> bool {
        self.path.starts_with("tests/") || self.path.ends_with("/tests.rs") || self.path.contains("/tests/")
    }

    /// Returns the text without comments, texts and the tests at the end.
    fn code(&self) -> String {
        let code = without_texts(&self.text);
        if self.is_test() {
            return String::new();
        }
        match code.find("#[cfg(test)]\nmod ") {
            Some(at) => code[..at].to_owned(),
            None => code,
        }
    }
}

/// Blanks out comments, strings and characters; line breaks stay.
fn without_texts(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let starts_word = !code.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let len = match first {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |at| at + 2),
            '"' => string_len(rest),
            'r' if starts_word => raw_string_len(rest, 1),
            'b' if starts_word && rest.starts_with("br") => raw_string_len(rest, 2),
            '\'' => character_len(rest),
            _ => 0,
        };
        if len == 0 {
            code.push(first);
            rest = &rest[first.len_utf8()..];
        } else {
            code.extend(rest[..len].chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
            rest = &rest[len..];
        }
    }
    code
}

fn string_len(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 1;
    while at < bytes.len() && bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(bytes.len())
}

/// Returns the length of a raw string behind a prefix of `prefix` letters; 0 where there is none.
fn raw_string_len(text: &str, prefix: usize) -> usize {
    let hashes = text[prefix..].bytes().take_while(|b| *b == b'#').count();
    let start = prefix + hashes;
    if !text[start..].starts_with('"') {
        return 0;
    }
    let end = format!("\"{}", "#".repeat(hashes));
    text[start + 1..].find(&end).map_or(text.len(), |at| start + 1 + at + end.len())
}

/// Returns the length of a character literal; 0 for a lifetime.
fn character_len(text: &str) -> usize {
    let mut chars = text.char_indices().skip(1);
    match (chars.next(), chars.next()) {
        (Some((_, '\\')), Some((at, escaped))) => {
            let behind = at + escaped.len_utf8();
            text[behind..].find('\'').map_or(0, |end| behind + end + 1)
        }
        (Some(_), Some((at, '\''))) => at + 1,
        _ => 0,
    }
}

/// Returns what stands behind each `word` that is a word of its own.
fn behind<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = &'a str> {
    let in_word = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word).filter_map(move |(at, _)| {
        let (before, after) = (&code[..at], &code[at + word.len()..]);
        let ends_in_word = word.ends_with(in_word);
        let whole = !(before.ends_with(in_word) || ends_in_word && after.starts_with(in_word));
        whole.then_some(after)
    })
}

fn identifier(text: &str) -> &str {
    let text = text.trim_start();
    &text[..text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len())]
}

/// Returns the first step of each path behind `root::`, those in braces included.
fn steps<'a>(code: &'a str, root: &'a str) -> Vec<&'a str> {
    let mut found = Vec::new();
    for after in behind(code, root) {
        let Some(path) = after.trim_start().strip_prefix("::") else { continue };
        match path.trim_start().strip_prefix('{') {
            None => found.push(identifier(path)),
            Some(tree) => found.extend(branches(tree)),
        }
    }
    found
}

/// Returns the first step of each branch of a use tree, given behind its opening brace.
fn branches(tree: &str) -> Vec<&str> {
    let (mut depth, mut start, mut found) = (0, 0, Vec::new());
    for (at, c) in tree.char_indices() {
        match c {
            '{' => depth += 1,
            ',' | '}' if depth == 0 => {
                found.push(identifier(&tree[start..at]));
                start = at + 1;
                if c == '}' {
                    break;
                }
            }
            '}' => depth -= 1,
            _ => {}
        }
    }
    found
}

fn arrows(source: &Source) -> Vec<String> {
    let module = source.module();
    if module.is_empty() {
        return Vec::new();
    }
    let Some((_, allowed)) = ARROWS.iter().find(|(name, _)| *name == module) else {
        return vec![format!("{}: `{module}` has no row in the table of modules", source.path)];
    };
    let code = source.code();
    let up = vec!["super"; source.depth()].join("::");
    let used = [steps(&code, "crate"), steps(&code, "abide"), steps(&code, &up)].concat();
    let known = |name: &&str| ARROWS.iter().any(|(module, _)| module == name);
    let forbidden = used.into_iter().filter(known).filter(|name| *name != module && !allowed.contains(name));
    forbidden.map(|name| format!("{}: {module} may not use {name}", source.path)).collect()
}

fn crates(source: &Source) -> Vec<String> {
    let (code, module) = (source.code(), source.module());
    let uses = |name: &str| behind(&code, name).any(|after| after.starts_with("::") || after.starts_with(';'));
    let misused = CRATES.iter().filter(|(name, allowed)| !allowed.contains(&module) && uses(name));
    misused.map(|(name, _)| format!("{}: {name} is not for {module}", source.path)).collect()
}

/// Finds who sends without a ledger and may not.
fn unrecorded(source: &Source) -> Vec<String> {
    let may = source.module() == "drive" || source.path == "src/measure/sampler.rs";
    let sends = !may && behind(&source.code(), "send_unrecorded").next().is_some();
    sends.then(|| format!("{}: only the sampler sends what nothing records", source.path)).into_iter().collect()
}

fn banned_words(source: &Source) -> Vec<String> {
    let code = source.code();
    let words: &[&str] = match source.module() {
        "engine" => &[BANNED_IN_ENGINE.as_slice(), &BANNED_IN_LIBRARY].concat(),
        "" | "cli" => &[],
        _ => &BANNED_IN_LIBRARY,
    };
    let direct = words.iter().filter(|word| behind(&code, word).next().is_some()).copied();
    let in_braces = steps(&code, "std")
        .into_iter()
        .flat_map(|step| words.iter().filter(move |word| word.strip_prefix("std::") == Some(step)).copied());
    let mut found: Vec<_> = direct.chain(in_braces).collect();
    found.sort_unstable();
    found.dedup();
    found.into_iter().map(|word| format!("{}: `{word}` is not for {}", source.path, source.module())).collect()
}

fn long_functions(source: &Source) -> Vec<String> {
    let (code, untested) = (without_texts(&source.text), source.code().len());
    let mut long = Vec::new();
    for after in behind(&code, "fn ") {
        // In a test the rows of a table count too: data, which gets no clearer in parts.
        let in_test = code.len() - after.len() >= untested;
        let limit = if in_test { 2 * FUNCTION_LINES } else { FUNCTION_LINES };
        let lines = function_end(after).map_or(0, |end| after[..end].lines().count());
        if lines > limit {
            long.push(format!("{}: {} has {lines} lines, at most {limit}", source.path, identifier(after)));
        }
    }
    long
}

/// Returns where the body ends of the function whose name starts `code`; `None` where it has none.
fn function_end(code: &str) -> Option<usize> {
    let (mut brackets, mut braces) = (0, 0);
    for (at, c) in code.char_indices() {
        match c {
            '(' | '[' => brackets += 1,
            ')' | ']' => brackets -= 1,
            ';' if brackets == 0 && braces == 0 => return None,
            '{' => braces += 1,
            '}' => {
                braces -= 1;
                if braces == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

fn long_files(source: &Source) -> Vec<String> {
    let code = if source.is_test() { source.text.clone() } else { source.code() };
    let lines = code.lines().count();
    let limit = if source.is_test() { 2 * FILE_LINES } else { FILE_LINES };
    if lines > limit { vec![format!("{}: {lines} lines, at most {limit}", source.path)] } else { Vec::new() }
}

fn bad_names(source: &Source) -> Vec<String> {
    let in_path = source.path.split('/').map(|part| part.trim_end_matches(".rs"));
    let code = without_texts(&source.text);
    let inline = behind(&code, "mod ").map(identifier);
    let bad = in_path.chain(inline).filter(|name| BANNED_MODULES.contains(name));
    bad.map(|name| format!("{}: `{name}` says nothing about what is inside", source.path)).collect()
}

/// Finds notes to finish later, and lints that are silenced without a reason.
fn leftovers(source: &Source) -> Vec<String> {
    let code = without_texts(&source.text);
    let notes = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("X", "XX")];
    let noted = notes.into_iter().filter(|note| behind(&source.text, note).next().is_some());
    let silenced = ["#[allow", "#![allow"].into_iter().filter(|attribute| code.contains(attribute));
    noted.chain(silenced).map(|found| format!("{}: `{found}` may not stay", source.path)).collect()
}

/// Returns the Rust files below `folder`, a path from the root of the package.
fn sources(folder: &str) -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> = vec![root.join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("the folder can be listed") {
            let path = entry.expect("the entry can be read").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).expect("sources are text");
                let path = path.strip_prefix(root).expect("it is inside").to_str().expect("names are text");
                found.push(Source { path: path.into(), text });
            }
        }
    }
    found
}

/// Applies a check to every file below the folders and fails with all that it found.
fn check(folders: &[&str], check: impl Fn(&Source) -> Vec<String>) {
    let all: Vec<Source> = folders.iter().flat_map(|folder| sources(folder)).collect();
    assert!(all.len() > folders.len(), "the sources are not where they should be");
    let found: Vec<String> = all.iter().flat_map(check).collect();
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

#[test]
fn modules_use_only_what_the_table_allows() {
    check(&["src"], arrows);
}

#[test]
fn crates_stay_in_their_modules() {
    check(&["src"], crates);
}

#[test]
fn only_the_sampler_sends_what_nothing_records() {
    check(&["src"], unrecorded);
}

#[test]
fn the_engine_touches_no_world_and_the_library_no_terminal() {
    check(&["src"], banned_words);
}

#[test]
fn functions_fit_a_screen() {
    check(&["src", "tests"], long_functions);
}

#[test]
fn files_hold_one_idea() {
    check(&["src", "tests"], long_files);
}

#[test]
fn modules_have_names_that_say_something() {
    check(&["src", "tests"], bad_names);
}

#[test]
fn nothing_is_left_for_later() {
    check(&["src", "tests"], leftovers);
}

#[test]
fn planted_faults_are_in_no_default_build_and_the_engine_is_guarded() {
    let manifest = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")).expect("a manifest");
    let listings = manifest.lines().filter(|line| line.contains("seeded-bugs")).collect::<Vec<_>>();
    assert_eq!(listings, ["seeded-bugs = []"], "no feature may bring the planted faults with it");
    let engine = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/src/engine/mod.rs")).expect("an engine");
    assert!(engine.contains("#![deny(clippy::disallowed_methods, clippy::disallowed_types)]"));
}

/// Returns what `check` finds in a file of one's own making.
fn found(check: fn(&Source) -> Vec<String>, path: &str, text: &str) -> usize {
    check(&Source { path: path.into(), text: text.into() }).len()
}

#[test]
fn forbidden_arrows_are_found_however_they_are_written() {
    for text in [
        "use crate::net::Wire;",
        "use crate::{engine::facts, net::Wire};",
        "use crate::{engine::{facts, verdict}, net};",
        "fn f(w: &crate::net::Wire) {}",
        "use super::super::net::Wire;",
        "use super::super::{net::Wire};",
        "use abide::net::Wire;",
        "use crate\n    ::net::Wire;",
    ] {
        assert_eq!(found(arrows, "src/store/jsonl.rs", text), 1, "{text}");
    }
    assert_eq!(found(arrows, "src/store/mod.rs", "use super::net::Wire;"), 1);
    assert_eq!(found(arrows, "src/engine/decide.rs", "use crate::drive::run;"), 1);
    assert_eq!(found(arrows, "src/report/human.rs", "use abide::{drive, engine};"), 1);
    assert_eq!(found(arrows, "src/extras/mod.rs", ""), 1, "a module without a row");
}

#[test]
fn allowed_arrows_and_mere_words_are_let_through() {
    for text in [
        "use crate::engine::facts::Fact;",
        "use crate::{drive::{Ledger, run}, engine, store::memory};",
        "use super::net::Local;",
        "// as crate::net does\nconst A: &str = \"crate::net\"; const B: &str = r#\"crate::net \" x\"#;",
        "fn f<'a>(x: &'a str) -> char { '\"' } // crate::net",
        "#[cfg(test)]\nmod tests { use crate::net::Wire; }",
        "use std::net::SocketAddr; use mycrate::net;",
    ] {
        assert_eq!(found(arrows, "src/store/jsonl.rs", text), 0, "{text}");
    }
    assert_eq!(found(arrows, "src/main.rs", "mod cli; fn main() { cli::run() }"), 0);
}

#[test]
fn crates_and_words_out_of_place_are_found() {
    for (path, text) in [
        ("src/store/mod.rs", "use reqwest::Client;"),
        ("src/engine/mod.rs", "fn f() { tokio::spawn(x) }"),
        ("src/report/mod.rs", "fn f() -> anyhow::Result<()> { Ok(()) }"),
        ("src/net/mod.rs", "use toml::Value;"),
        ("src/lib.rs", "use clap::Parser;"),
    ] {
        assert_eq!(found(crates, path, text), 1, "{text}");
    }
    assert_eq!(found(crates, "src/net/mod.rs", "use reqwest::Client; fn hyper() {}"), 0);
    let sends = "use crate::drive::send_unrecorded;";
    let paths = ["src/cli/send.rs", "src/measure/tally.rs", "src/measure/sampler.rs", "src/drive/mod.rs"];
    assert_eq!(paths.map(|path| found(unrecorded, path, sends)), [1, 1, 0, 0]);
    for text in [
        "use std::fs;",
        "use std::{fmt, fs};",
        "use std::{env::var};",
        "let t = Instant::now();",
        "async fn f() {}",
        "fn f() { println!() }",
        "use std::net::TcpStream;",
    ] {
        assert_eq!(found(banned_words, "src/engine/decide.rs", text), 1, "{text}");
    }
    for text in
        ["use std::net::SocketAddr;", "let operand = brand;", "/// Never an Instant.\nfn f() {}", "\"println!\""]
    {
        assert_eq!(found(banned_words, "src/engine/decide.rs", text), 0, "{text}");
    }
    assert_eq!(found(banned_words, "src/net/mod.rs", "fn f() { std::process::exit(1) }"), 1);
    assert_eq!(found(banned_words, "src/cli/mod.rs", "fn f() { std::process::exit(1) }"), 0);
}

#[test]
fn what_is_too_long_or_left_over_is_found() {
    let function = |lines: usize| format!("fn f(a: [u8; 2]) -> [u8; 2] {{\n{}}}\n", "    \"}\";\n".repeat(lines - 2));
    assert_eq!(found(long_functions, "src/net/mod.rs", &function(FUNCTION_LINES)), 0);
    assert_eq!(found(long_functions, "src/net/mod.rs", &function(FUNCTION_LINES + 1)), 1);
    let test = |lines| format!("#[cfg(test)]\nmod tests {{\n{}}}\n", function(lines));
    assert_eq!(found(long_functions, "src/net/mod.rs", &test(2 * FUNCTION_LINES)), 0);
    assert_eq!(found(long_functions, "src/net/mod.rs", &test(2 * FUNCTION_LINES + 1)), 1);
    assert_eq!(found(long_functions, "tests/wire/main.rs", &function(2 * FUNCTION_LINES + 1)), 1);
    assert_eq!(found(long_functions, "src/net/mod.rs", "trait T {\n    fn f();\n}\n"), 0);
    assert_eq!(found(long_files, "src/net/mod.rs", &"\n".repeat(FILE_LINES + 1)), 1);
    let tested = format!("{}#[cfg(test)]\nmod tests {{\n{}}}\n", "\n".repeat(FILE_LINES), "\n".repeat(FILE_LINES));
    assert_eq!(found(long_files, "src/net/mod.rs", &tested), 0);
    for (path, text) in [("src/net/util.rs", ""), ("src/common/mod.rs", ""), ("src/net/mod.rs", "mod types { }")] {
        assert_eq!(found(bad_names, path, text), 1, "{path} {text}");
    }
    for text in [concat!("// TO", "DO: later"), concat!("/// FIX", "ME"), "#[allow(dead_code)]", "#![allow(unused)]"] {
        assert_eq!(found(leftovers, "src/net/mod.rs", text), 1, "{text}");
    }
    assert_eq!(found(leftovers, "src/net/mod.rs", "#[expect(dead_code, reason = \"shown in a test\")]"), 0);
}
