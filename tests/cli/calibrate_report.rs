//! `abide calibrate --report`: a page that takes its place in one step, and never that of another file.

use crate::sandbox::{Host, Sandbox};
use abide::rehearse::partner::{Act, Reply, Script, Turn};
use std::os::unix::fs::PermissionsExt;

const FILE: [&str; 5] = ["calibrate", "--samples-file", "s.txt", "--unit", "ms"];

fn samples(sandbox: &Sandbox) {
    sandbox.write("s.txt", &"200\n".repeat(400));
}

#[test]
fn a_page_is_written_for_the_owner_only_and_shows_no_secret() {
    let sandbox = Sandbox::new();
    let host = Host::start(Script::always(Turn::not_done(Act::Answer(Reply::json(200, "{}")))));
    let url = host.url("/ping?api_key=sk-live-77aa&note=<b>");
    let args = ["calibrate", &url, "-H", "Authorization: Bearer sk-live-88bb"];
    let more = ["--samples", "40", "--rate", "400/s", "--timeout", "5s", "--report", "r.html"];
    let said = sandbox.run(&[&args[..], &more[..]].concat());
    assert!(said.ends_with("exit 0") && said.contains("r.html: written"), "{said}");
    let page = sandbox.read("r.html");
    assert!(page.contains("/ping?api_key=***&amp;note=") && !page.contains("<b>"), "{page}");
    assert!(!page.contains("sk-live"), "{page}");
    for words in ["In short:", "wait at least", "All samples are from", "<svg", "seed 7"] {
        assert!(page.contains(words), "{words} is not in {page}");
    }
    let mode = std::fs::metadata(sandbox.path().join("r.html")).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let names: Vec<_> = std::fs::read_dir(sandbox.path()).expect("a folder").collect();
    assert_eq!(names.len(), 1, "no draft is left: {names:?}");
}

#[test]
fn an_older_page_is_replaced_and_another_file_is_not() {
    let sandbox = Sandbox::new();
    samples(&sandbox);
    let args = [&FILE[..], &["--report", "r.html"]].concat();
    assert_eq!(sandbox.status(&args).0, 0);
    sandbox.write("s.txt", &"300\n".repeat(400));
    assert_eq!(sandbox.status(&args).0, 0);
    assert!(sandbox.read("r.html").contains("300ms"));
    sandbox.write("r.html", "<!doctype html><p>mine</p>");
    let said = sandbox.run(&args);
    assert!(said.contains("--report r.html: there is a file that is no report of abide calibrate"), "{said}");
    assert!(said.contains("hint: name another") && said.ends_with("exit 2"), "{said}");
    assert_eq!(sandbox.read("r.html"), "<!doctype html><p>mine</p>");
}

#[test]
fn a_place_where_no_page_can_lie_is_refused_before_anything_is_sent() {
    let (sandbox, host) = (Sandbox::new(), Host::start(Script::always(Turn::fine())));
    let url = host.url("/ping");
    for (place, why) in [
        ("none/r.html", "--report none/r.html: its folder does not exist"),
        (".", "--report .: it is a folder"),
        ("/dev/null", "--report /dev/null: it is no file"),
    ] {
        let said = sandbox.run(&["calibrate", &url, "--report", place]);
        assert!(said.contains(why) && said.ends_with("exit 2"), "{said}");
    }
    assert_eq!(host.seen().connections, 0);
}

#[test]
fn what_is_refused_has_a_page_too() {
    let sandbox = Sandbox::new();
    sandbox.write("s.txt", "20\n30\n");
    let (code, _) = sandbox.status(&[&FILE[..], &["--report", "r.html"]].concat());
    assert!(code == 8 && sandbox.read("r.html").contains("No limits are suggested"), "{code}");
}
