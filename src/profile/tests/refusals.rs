use super::*;
use proptest::prelude::*;

/// Each text is refused with exactly these words.
fn refused(cases: &[(&str, &str)]) {
    for (text, words) in cases {
        assert_eq!(complaint(text), *words, "{text}");
    }
}

#[test]
fn unknown_keys_are_named_with_their_line_and_the_nearest_known_one() {
    refused(&[
        ("\n[retry]\nmax_atempts = 1", "p.toml:3: unknown key `retry.max_atempts` | did you mean `max_attempts`?"),
        ("retry = { max_attempts = 1,\n  bse = \"1s\" }", "p.toml:2: unknown key `retry.bse` | did you mean `base`?"),
        ("retry.jiter = 'full'", "p.toml:1: unknown key `retry.jiter` | did you mean `jitter`?"),
        ("[timeout]\nread = '1s'", "p.toml:1: unknown key `timeout` | did you mean `timeouts`?"),
        (
            "[timeouts]\nmax_attempts = 2",
            "p.toml:2: unknown key `timeouts.max_attempts` | `max_attempts` belongs to [retry]",
        ),
        (
            "[timeouts]\nbase_url = 'http://a'",
            "p.toml:2: unknown key `timeouts.base_url` | `base_url` belongs to the top of the file, before the first [section]",
        ),
        ("[retry]\ncolour = 1", "p.toml:2: unknown key `retry.colour`"),
        ("[retry]\nbase = '1s'\nzz = 1\naa = 1", "p.toml:3: unknown key `retry.zz`"),
        (
            "[[endpoint]]\npath = '/a'\n[[endpoint]]\npath = '/b'\ntimeouts = { raed = '1s' }",
            "p.toml:5: unknown key `endpoint[2].timeouts.raed` | did you mean `read`?",
        ),
        (
            "[[classify.rule]]\nstatus = 409\nmeens = 'confirmed'",
            "p.toml:3: unknown key `classify.rule[1].meens` | did you mean `means`?",
        ),
        (
            "[status]\nurl = '/x'\nconfirmed = { pointr = '/a' }",
            "p.toml:3: unknown key `status.confirmed.pointr` | did you mean `pointer`?",
        ),
    ]);
}

#[test]
fn sections_of_later_versions_are_not_built_yet() {
    for section in ["alerts", "on_settled", "probe"] {
        let expected =
            format!("p.toml:2: `{section}` is not built yet | a later version reads it; take it out for now");
        assert_eq!(complaint(&format!("version = 1\n[{section}]\nx = 1")), expected);
    }
}

#[test]
fn durations_need_a_unit_and_are_never_zero() {
    refused(&[
        ("[timeouts]\nread = 600", "p.toml:2: `timeouts.read`: 600 has no unit: write 600ms or 600s"),
        ("[timeouts]\nread = '600'", "p.toml:2: `timeouts.read`: 600 has no unit: write 600ms or 600s"),
        ("[idempotency]\nsettle = '0'", "p.toml:2: `idempotency.settle`: 0 is no time at all: write for example 250ms"),
        ("[timeouts]\nread = true", "p.toml:2: `timeouts.read` is true or false, expected a duration such as \"15s\""),
    ]);
    for text in
        ["[timeouts]\nread = '0s'", "[timeouts]\nread = -5", "[timeouts]\nread = '-5s'", "[timeouts]\nread = ''"]
    {
        assert!(complaint(text).starts_with("p.toml:2: `timeouts.read`: "), "{}", complaint(text));
    }
    for text in ["[idempotency]\nretention = '0s'", "[status]\nurl = '/x'\nconfirmed = [200]\nsettle = '0s'"] {
        assert!(complaint(text).contains("no time at all"), "{}", complaint(text));
    }
}

#[test]
fn a_file_that_cannot_be_one_is_refused() {
    refused(&[
        ("[measured]\nhlog = ''", "p.toml:2: `measured.hlog` is empty"),
        ("[measured]\nhlog = \"a\\u001b[2J\"", "p.toml:2: `measured.hlog` has a control character in it"),
        ("[measured]\nhlog = 3", "p.toml:2: `measured.hlog` is a number, expected a text in quotes"),
    ]);
}

#[test]
fn a_key_is_never_forgotten_while_it_is_needed() {
    let keeps = "[ledger]\nkeep_full = '1m'\nforget_after = '10m'";
    let endpoint = "[ledger]\nforget_after = '30d'\n[[endpoint]]\npath = '/a'\nidempotency.retention = '31d'";
    for (text, words) in [
        ("[ledger]\nforget_after = '7d'", "p.toml:2: `ledger.forget_after` is below [ledger] keep_full = 30d | "),
        (keeps, "p.toml:3: `ledger.forget_after` is below [idempotency] retention = 1h | "),
        (endpoint, "p.toml:2: `ledger.forget_after` is below [idempotency] retention = 31d | "),
    ] {
        assert!(complaint(text).starts_with(words), "{}", complaint(text));
    }
}

#[test]
fn wrong_types_and_broken_text_name_what_was_expected() {
    refused(&[
        ("retry = 3", "p.toml:1: `retry` is a number, expected a section such as [name] or { … }"),
        ("partner = 3", "p.toml:1: `partner` is a number, expected a text in quotes"),
        ("[idempotency]\nsupported = 'yes'", "p.toml:2: `idempotency.supported` is a text, expected true or false"),
        ("[retry]\nmax_attempts = '5'", "p.toml:2: `retry.max_attempts` is a text, expected a whole number"),
        ("endpoint = 1", "p.toml:1: `endpoint` is a number, expected a list of sections such as [[name]]"),
        ("version = 2", "p.toml:1: `version` is 2, it must be from 1 to 1"),
    ]);
    for text in ["[retry\nbase = '1s'", "a = \n", "[retry]\nbase = '1s'\nbase = '2s'"] {
        let words = complaint(text);
        assert!(words.starts_with("p.toml:") && words.contains("no valid TOML: "), "{words}");
        assert!(!words.contains('\n'), "{words}");
    }
    let mut world = Fake::default();
    world.files.insert("p.toml".into(), vec![0xff, b'=']);
    let error = load(Path::new("p.toml"), &world).expect_err("no text");
    assert_eq!(error.to_string(), "p.toml: the profile is no UTF-8 text");
    let error = load(Path::new("q.toml"), &world).expect_err("no file");
    assert_eq!(error.to_string(), "q.toml: cannot read the profile: entity not found");
}

#[test]
fn contradictory_limits_are_refused_at_the_line_of_the_offender() {
    refused(&[
        (
            "[retry]\nbase = '10s'\ncap = '5s'",
            "p.toml:2: `retry.base` is above `cap`, which no wait exceeds | the defaults are base = \"2s\" and cap = \"300s\"",
        ),
        (
            "[retry]\ncap = '1s'",
            "p.toml:2: `retry.cap` is below `base`, the first wait | the defaults are base = \"2s\" and cap = \"300s\"",
        ),
        ("[retry]\nmax_attempts = 0", "p.toml:2: `retry.max_attempts` is 0, it must be at least 1"),
        ("[retry]\njitter = 'none'", "p.toml:2: `retry.jitter` is \"none\", it must be one of equal, full"),
        ("[idempotency]\nmax_len = 0", "p.toml:2: `idempotency.max_len` is 0, it must be from 1 to 255"),
        ("[idempotency]\nmax_len = 256", "p.toml:2: `idempotency.max_len` is 256, it must be from 1 to 255"),
        (
            "[idempotency]\nin = 'body'\nformat = 'quoted'",
            "p.toml:3: `idempotency.format` quotes are a header's form: it goes with in = \"header\" only",
        ),
        (
            "[idempotency]\nin = 'query'",
            "p.toml:1: `idempotency.header` is missing: with in = \"query\" it names the query parameter",
        ),
        (
            "[idempotency]\nin = 'query'\nheader = ''",
            "p.toml:3: `idempotency.header` is empty: it names the query parameter",
        ),
        (
            "[idempotency]\nsupported = true\nheader = ''",
            "p.toml:3: `idempotency.header` contradicts: a partner honours no key that is not sent | state the header's name",
        ),
        (
            "[timeouts]\noverall = '200ms'",
            "p.toml:2: `timeouts.overall` is below 250ms, the least time that an attempt is started with: nothing would ever be sent",
        ),
        (
            "[classify]\nrefused = [500, 503]\nretry_in_doubt = [503]",
            "p.toml:3: `classify.retry_in_doubt` lists 503, and so does `refused`: it can mean one of them only",
        ),
        (
            "[classify]\nrefused = [503]\n[[endpoint]]\npath = '/a'\nclassify = { in_progress = [503] }",
            "p.toml:5: `endpoint[1].classify.in_progress` lists 503, and so does `refused`: it can mean one of them only",
        ),
        (
            "[classify]\nrefused = [200]",
            "p.toml:2: `classify.refused` lists 200, which is no error | a [[classify.rule]] can look into the answer",
        ),
        ("[classify]\nrefused = [600]", "p.toml:2: `classify.refused[1]` is 600, it must be from 100 to 599"),
        ("[breaker]\nopen_for = '2m'\nopen_cap = '1m'", "p.toml:2: `breaker.open_for` is above `open_cap`"),
        (
            "[breaker]\nfailure_ratio = 1.5",
            "p.toml:2: `breaker.failure_ratio` must be above 0 and at most 1 | write 0.5 for half of the calls",
        ),
        ("[limits]\nconcurrency = 0", "p.toml:2: `limits.concurrency` is 0, it must be at least 1"),
        ("[limits]\nresponse_bytes = '0B'", "p.toml:2: `limits.response_bytes` is zero: no answer could be read"),
    ]);
}

#[test]
fn rules_about_answers_must_say_something_that_can_be_checked() {
    let status = |rest: &str| complaint(&format!("[status]\nurl = '/x/{{key}}'\n{rest}"));
    for (rest, words) in [
        ("", "p.toml:1: `status.confirmed` is missing: without it no answer proves that an operation happened"),
        (
            "confirmed = { equals = ['a'] }",
            "p.toml:3: `status.confirmed.equals` has no pointer beside it | say where: pointer = \"/state\"",
        ),
        (
            "confirmed = {}",
            "p.toml:3: `status.confirmed` says nothing: it would hold for every 2xx answer | state a status, a pointer or both",
        ),
        (
            "confirmed = { pointer = 'state' }",
            "p.toml:3: `status.confirmed.pointer` is no JSON pointer | write \"/state\"",
        ),
        (
            "confirmed = { pointer = '$.a.b' }",
            "p.toml:3: `status.confirmed.pointer` is no JSON pointer | write \"/a/b\"",
        ),
        (
            "confirmed = { pointer = '/a', equals = [] }",
            "p.toml:3: `status.confirmed.equals` is empty | leave it out: any value counts then",
        ),
        ("confirmed = [200]\nmethod = 'POST'", "p.toml:4: `status.method` must be a safe method: GET, HEAD or OPTIONS"),
        (
            "confirmed = [200]\nabsent = { status = 404, same = ['/a'] }",
            "p.toml:4: `status.absent` has `same`, which guards only confirmed and rejected",
        ),
        ("confirmed = { status = 99 }", "p.toml:3: `status.confirmed.status` is 99, it must be from 100 to 599"),
    ] {
        assert_eq!(status(rest), words);
    }
    refused(&[
        ("[status]\nconfirmed = [200]", "p.toml:1: `status.url` is missing: a status request needs an address"),
        (
            "[[classify.rule]]\nmeans = 'confirmed'",
            "p.toml:1: `classify.rule[1]` has no condition: it would hold for every answer | state a status, a header or a pointer",
        ),
        (
            "[[classify.rule]]\nstatus = 409",
            "p.toml:1: `classify.rule[1].means` is missing: a rule says what the answer means",
        ),
        (
            "[[classify.rule]]\nstatus = 409\nmeans = 'done'",
            "p.toml:3: `classify.rule[1].means` is \"done\", it must be one of confirmed, accepted, rejected, refused, in_progress, in_doubt",
        ),
        ("[success]", "p.toml:1: `success` says nothing: it would hold for every 2xx answer | state a pointer"),
        (
            "[success]\ncontent_type = 'application/json; charset=utf-8'",
            "p.toml:2: `success.content_type` must be a media type without parameters | write \"application/json\"",
        ),
    ]);
}

#[test]
fn addresses_with_unknown_places_or_without_a_host_are_refused() {
    const PLACES: &str = "the places are {key}, {body:/pointer}, {answer:/pointer} and {location}";
    let url = |url: &str| complaint(&format!("[status]\nconfirmed = [200]\nurl = '{url}'"));
    for (text, words) in [
        ("/x/{id}", format!("p.toml:3: `status.url` has an unknown place {{id}} | {PLACES}")),
        ("/x/{key", format!("p.toml:3: `status.url` has a {{ without a }} | {PLACES}")),
        ("/x/{body:id}", "p.toml:3: `status.url` has {body:id}, whose pointer must start with /".into()),
        (
            "x/{key}",
            "p.toml:3: `status.url` must start with /, http:// or https:// | a path is joined to base_url".into(),
        ),
        ("/x{location}", "p.toml:3: `status.url` has something beside {location}, which is a whole URL".into()),
        ("/x/ {key}", "p.toml:3: `status.url` has a blank, a control character or a fragment".into()),
    ] {
        assert_eq!(url(text), words);
    }
    assert_eq!(
        complaint("[status]\nconfirmed = [200]\nurl = '/x/{body:/id}'\ncontrol_key = 'k'"),
        "p.toml:4: `status.control_key` cannot be asked about: the url needs more of an operation than its key \
         | take it out: the newest confirmed operation of the ledger serves"
    );
    for (base, words) in [
        ("api.example", "has no scheme such as http:// | write http://host[:port][/path]"),
        ("ftp://a", "is neither http nor https | write http://host[:port][/path]"),
        ("http://", "names no host | write http://host[:port][/path]"),
        ("http://a/?x=1", "has a query or a fragment | put the query behind the path that you send to"),
        ("http://a/#x", "has a query or a fragment | put the query behind the path that you send to"),
        ("http://u:p@a/", "has credentials in it | put them under [auth]: user and password_env"),
    ] {
        assert_eq!(complaint(&format!("base_url = '{base}'")), format!("p.toml:1: `base_url` {words}"));
    }
}

#[test]
fn names_and_headers_that_cannot_be_sent_are_refused() {
    refused(&[
        ("partner = ''", "p.toml:1: `partner` must have 1 to 255 bytes and no control characters"),
        ("account = ''", "p.toml:1: `account` must not be empty or hold control characters"),
        ("[headers]\n'X Y' = 'a'", "p.toml:2: `headers.X Y` is no header name"),
        ("[headers]\nX = \"a\\nb\"", "p.toml:2: `headers.X` has a line break in its value"),
        ("[headers]\nX = ''", "p.toml:2: `headers.X` has no value"),
        (
            "[headers]\nContent-Length = '3'",
            "p.toml:2: `headers.Content-Length` belongs to the connection: abide sets it, so that it can tell what was sent",
        ),
        ("[headers]\nX-A = 'a'\nx-a = 'b'", "p.toml:3: `headers.x-a` is stated twice, in another case"),
        (
            "[headers]\nidempotency-key = 'a'",
            "p.toml:2: `headers.idempotency-key` is the header of the idempotency key, which differs for every operation \
             | leave it out; `abide send --key` gives the key",
        ),
        (
            "[headers]\nX-A = 'a'\n[announce]\nattempt = 'x-a'",
            "p.toml:4: `announce.attempt` names x-a, which is stated elsewhere already",
        ),
        (
            "[[endpoint]]\nmethod = 'POST'",
            "p.toml:1: `endpoint[1].path` is missing: an endpoint says which paths it is about",
        ),
        (
            "[[endpoint]]\npath = 'a'",
            "p.toml:2: `endpoint[1].path` must start with / and hold no blank, query or fragment",
        ),
        (
            "[[endpoint]]\npath = '/a*'",
            "p.toml:2: `endpoint[1].path` has a * inside a segment: it matches one whole segment",
        ),
        ("[[endpoint]]\npath = '/a'\nmethod = 'CONNECT'", "p.toml:3: `endpoint[1].method` is no HTTP method"),
    ]);
}

proptest! {
    #[test]
    fn whatever_is_cut_from_a_profile_is_read_or_refused_with_its_line(from in 0usize..2000, len in 1usize..40, with in "[\\[\\]{}\"'=a0.${\\n]{0,3}") {
        let whole = include_str!("../../../profiles/payments.toml");
        let (from, to) = (from.min(whole.len()), (from + len).min(whole.len()));
        let text = format!("{}{with}{}", &whole[..from], &whole[to..]);
        if let Err(error) = Fake::with(&[("PAYMENTS_TOKEN", "tok-1234")]).load(&text) {
            let lines = text.lines().count().max(1);
            prop_assert!(error.line.is_some_and(|line| (1..=lines + 1).contains(&(line as usize))), "{error}");
        }
    }
}

#[test]
fn a_profile_that_is_not_found_says_where_it_was_looked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir_all(folder.path().join("profiles")).expect("a folder");
    std::fs::create_dir_all(folder.path().join("home/abide/profiles")).expect("a folder");
    for file in ["profiles/a.toml", "home/abide/profiles/b.toml", "c.toml"] {
        std::fs::write(folder.path().join(file), "").expect("a file");
    }
    let home = folder.path().join("home");
    let find = |name| find(name, folder.path(), Some(&home));
    assert_eq!(find("a"), Ok("profiles/a.toml".into()));
    assert_eq!(find("profiles/a.toml"), Ok("profiles/a.toml".into()));
    assert_eq!(find("b"), Ok(home.join("abide/profiles/b.toml")));
    assert_eq!(find("c.toml"), Ok("c.toml".into()));
    assert_eq!(find("./d.toml").expect_err("none").to_string(), "no profile `./d.toml`; looked for ./d.toml");
    let words = find("d").expect_err("none").to_string();
    assert_eq!(words.matches(',').count(), 4, "{words}");
    assert!(words.starts_with("no profile `d`; looked for d, profiles/d, profiles/d.toml, "), "{words}");
}
