//! `abide calibrate --write --hlog FILE`, and what `--compare` makes of that file later.

use crate::sandbox::{Host, Sandbox};
use abide::rehearse::partner::{Act, Reply, Script, Turn};
use serde_json::Value;

/// Measures a partner into `profiles/acme.toml`, with all samples in `hlog`.
fn measured(hlog: &str) -> (Sandbox, String) {
    let host = Host::start(Script::always(Turn::not_done(Act::Answer(Reply::json(200, "{}")))));
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path().join("profiles")).expect("a folder");
    sandbox.write("profiles/acme.toml", &format!("version = 1\nbase_url = '{}'\n", host.url("")));
    let args = ["-p", "acme", "/ping", "--samples", "60", "--rate", "400/s", "--timeout", "5s"];
    let write = ["--write", "--accept-thin", "--hlog", hlog];
    let said = sandbox.run(&[&["calibrate"], &args[..], &write].concat());
    assert!(said.ends_with("exit 0"), "{said}");
    sandbox.write("now.txt", &"9000\n".repeat(60));
    (sandbox, said)
}

/// Returns what a comparison with `profile` says, slow answers being new.
fn compared(sandbox: &Sandbox, profile: &str) -> Value {
    let args = ["-p", profile, "/ping", "--samples-file", "now.txt", "--unit", "ms", "--compare"];
    let (code, text) = sandbox.status(&[&["calibrate", "--format", "json"], &args[..]].concat());
    let found: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!((code, &found["compared"]["drifted"]), (8, &true.into()), "{text}");
    found["compared"].clone()
}

#[test]
fn a_comparison_takes_all_samples_that_the_profile_names_and_says_so() {
    let (sandbox, said) = measured("profiles/it's 1.hlog");
    let named = "hlog = \"it's 1.hlog\"";
    assert!(sandbox.read("profiles/acme.toml").contains(named) && said.contains(named), "{said}");
    let found = compared(&sandbox, "acme");
    assert_eq!((&found["slower"], &found["lacks"]), (&1.0.into(), &Value::Null), "{found}");
    let with = found["with"].as_str().unwrap_or_default();
    assert!(with.starts_with("profiles/it's 1.hlog, 10:00:0"), "{with}");
    assert!(with.ends_with(", which [measured] of profiles/acme.toml names"), "{with}");
    std::fs::rename(sandbox.path().join("profiles"), sandbox.path().join("moved")).expect("it is moved");
    assert_eq!(compared(&sandbox, "./moved/acme.toml")["slower"], 1.0, "both were moved");
}

#[test]
fn without_that_file_the_percentiles_are_compared_and_why_is_said() {
    let (sandbox, _) = measured("all.hlog");
    let place = sandbox.path().canonicalize().expect("a folder").join("all.hlog");
    let text = sandbox.read("profiles/acme.toml");
    assert!(text.contains(&format!("hlog = \"{}\"", place.display())), "it lies elsewhere: {text}");
    assert_eq!(compared(&sandbox, "acme")["slower"], 1.0);
    let whole = sandbox.read("all.hlog");
    for (change, why) in [(Some(&whole[..whole.len() - 9]), "a damaged histogram"), (None, "all.hlog: no such file")] {
        match change {
            Some(text) => sandbox.write("all.hlog", text),
            None => std::fs::remove_file(&place).expect("it is there"),
        }
        let found = compared(&sandbox, "acme");
        assert_eq!((&found["slower"], &found["percentiles"][0]["percentile"]), (&Value::Null, &"95".into()));
        let lacks = found["lacks"].as_str().unwrap_or_default();
        assert!(lacks.starts_with("compared with p95 and p99 alone: ") && lacks.contains(why), "{found}");
        assert!(found["with"].as_str().is_some_and(|with| with.starts_with("[measured] of ")), "{found}");
    }
    let args = ["calibrate", "-p", "acme", "/ping", "--samples-file", "now.txt", "--unit", "ms", "--compare"];
    let said = sandbox.run(&args);
    assert!(said.contains("\n  compared with p95 and p99 alone: ") && said.ends_with("exit 8"), "{said}");
}
