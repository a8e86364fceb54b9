use super::super::tests::{Fake, profile};
use super::*;
use crate::engine::operation::NotAKey;
use crate::engine::policy::Idempotency;
use crate::profile::NotAHeader;

const NOW: Timestamp = Timestamp::from_unix_ms(1_800_000_000_000);

fn draft(target: &str) -> Draft {
    Draft {
        method: None,
        target: target.into(),
        headers: Vec::new(),
        user: None,
        body: None,
        json: false,
        key: KeySource::Given("k-1".into()),
        key_header: None,
        account: None,
        deadline: None,
        valid_until: None,
        max_attempts: None,
        timeouts: TimeoutFlags::default(),
        now: NOW,
        why: Why::Send,
        owner: Owner::default(),
    }
}

fn post(target: &str, body: &str) -> Draft {
    Draft { body: Some(body.as_bytes().into()), json: true, ..draft(target) }
}

fn flags(texts: &[&str]) -> Vec<HeaderFlag> {
    texts.iter().map(|text| HeaderFlag::parse(text).expect("a header")).collect()
}

fn composed(profile: Option<&Profile>, draft: &Draft) -> Composed {
    compose(profile, draft).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns what goes over the wire as `Name: value` lines.
fn sent(composed: &Composed) -> Vec<String> {
    let headers = &composed.operation.request.headers;
    headers.iter().map(|header| format!("{}: {}", header.name, header.value.sent.expose())).collect()
}

fn refusal(profile: Option<&Profile>, draft: &Draft) -> String {
    compose(profile, draft).expect_err("a refusal").to_string()
}

#[test]
fn without_a_profile_the_defaults_hold_and_the_key_is_sent_but_not_trusted() {
    let bodyless = composed(None, &draft("http://api.example:81/x#frag"));
    assert_eq!(bodyless.operation.request.method.as_str(), "GET");
    assert_eq!(bodyless.operation.request.url.sent.expose(), "http://api.example:81/x");
    assert_eq!(bodyless.operation.partner.as_str(), "api.example:81");
    assert_eq!(sent(&bodyless), ["Idempotency-Key: k-1"]);
    assert_eq!(bodyless.warnings, []);
    let built = composed(None, &post("http://api.example/x", "{}"));
    assert_eq!(built.operation.request.method.as_str(), "POST");
    assert_eq!(sent(&built), ["Content-Type: application/json", "Idempotency-Key: k-1"]);
    assert_eq!(built.policy, Policy::unprofiled(Method::new("POST").expect("a method"), "http://api.example:80"));
    let opened = &built.opened;
    assert_eq!((opened.key_until, opened.valid_until, opened.profile.clone()), (None, None, None));
    assert_eq!(opened.deadline, NOW.after(Duration::from_secs(150)));
    assert_eq!(&*opened.contract, "header:idempotency-key:raw");
    assert_eq!(opened.body, StoredBody::Text("{}".into()));
    assert_eq!(opened.fp, built.operation.fingerprint);
    let plain = Draft { json: false, ..post("http://api.example/x", "a") };
    assert_eq!(composed(None, &plain).warnings, [Warning::NoContentType]);
    let method = Draft { method: Method::new("put"), ..post("http://api.example/x", "a") };
    assert_eq!(composed(None, &method).operation.request.method.as_str(), "PUT");
}

#[test]
fn flags_beat_the_profile() {
    let partner = profile(
        "partner = 'acme'\naccount = 'live'\n[timeouts]\nread = '1s'\nwrite = '2s'\n[idempotency]\nsupported = true\n\
         [headers]\nX-Team = 'north'\nContent-Type = 'text/plain'\nX-Kept = 'yes'",
    );
    let flagged = Draft {
        headers: flags(&["x-team: south", "Accept: a", "Accept: b"]),
        timeouts: TimeoutFlags { read: Some(Duration::from_secs(9)), ..TimeoutFlags::default() },
        max_attempts: Some(2),
        deadline: Some(DeadlineFlag::Within(Duration::from_secs(7))),
        valid_until: Some(NOW.after(Duration::from_secs(60))),
        key_header: Some("X-Once".into()),
        account: Some("test".into()),
        ..post("http://api.example/x", "{}")
    };
    let built = composed(Some(&partner), &flagged);
    assert_eq!(
        sent(&built),
        ["Content-Type: text/plain", "X-Kept: yes", "x-team: south", "Accept: a", "Accept: b", "X-Once: k-1"]
    );
    let policy = &built.policy;
    assert_eq!((policy.timeouts.read.as_secs(), policy.timeouts.write.as_secs()), (9, 2));
    assert_eq!((policy.timeouts.overall.as_secs(), policy.retry.max_attempts), (7, 2));
    assert_eq!((policy.account.as_deref(), built.opened.account.as_deref()), (Some("test"), Some("test")));
    assert_eq!(policy.idempotency.place, KeyPlace::Header(Some("X-Once".into())));
    assert_eq!(built.opened.deadline, NOW.after(Duration::from_secs(7)));
    assert_eq!(built.opened.key_until, Some(NOW.after(Duration::from_secs(3600))));
    assert_eq!(built.opened.valid_until, flagged.valid_until);
    assert!(built.opened.profile.as_ref().is_some_and(|path| path.starts_with('/') && path.ends_with("/p.toml")));
    let at = Draft { deadline: Some(DeadlineFlag::At(NOW.after(Duration::from_secs(3)))), ..draft("http://a/") };
    assert_eq!(composed(None, &at).policy.timeouts.overall, Duration::from_secs(3));
}

#[test]
fn a_path_joins_base_url_and_another_origin_is_refused() {
    let partner = profile("base_url = 'http://api.example/v1/'\n[headers]\nX-A = 'a'");
    for (target, url) in
        [("/orders?x=1#f", "http://api.example/v1/orders?x=1"), ("http://API.example:80/v2", "http://api.example/v2")]
    {
        assert_eq!(composed(Some(&partner), &draft(target)).operation.request.url.sent.expose(), url);
    }
    let error = compose(Some(&partner), &draft("http://evil.example/x")).expect_err("another origin");
    assert_eq!(error.to_string(), "the profile is for http://api.example:80, and the URL is at http://evil.example:80");
    assert!(compose(Some(&partner), &draft("http://api.example:81/x")).is_err());
    let free = profile("[headers]\nX-A = 'a'");
    assert_eq!(sent(&composed(Some(&free), &draft("http://any.example/x")))[0], "X-A: a");
    assert_eq!(refusal(Some(&free), &draft("/x")), "`/x` is a path, and p.toml has no base_url");
    for (target, words, hint) in [
        ("/x?token=1", "`/x` is a path, and there is no profile", "give the whole URL, or a profile with base_url"),
        (
            "api.example/x",
            "`api.example/x` has no scheme such as http://",
            "write http://api.example/x, or a path that starts with / and a profile with base_url",
        ),
        ("http://a/b c", "`http://a/b c` has a blank or control character at position 11", "write a blank as %20"),
    ] {
        let error = compose(None, &draft(target)).expect_err(target);
        assert_eq!((error.to_string(), error.hint().as_deref()), (words.into(), Some(hint)));
    }
    assert_eq!(refusal(None, &draft("ftp://u:p@a/x?token=1")), "`ftp://a/x` is neither http nor https");
}

#[test]
fn keys_are_checked_before_anything_is_sent() {
    let with = |key: KeySource| Draft { key, ..post("http://a/x", r#"{"id":"o-1","n":7,"null":null,"no":"","o":{}}"#) };
    let pointer = |text: &str| with(KeySource::Pointer(text.into()));
    for (text, why) in [
        ("", NotAKey::Empty),
        (" k", NotAKey::Blanks),
        ("a b", NotAKey::Character { position: 2 }),
        ("kä", NotAKey::Character { position: 2 }),
    ] {
        assert_eq!(
            compose(None, &with(KeySource::Given(text.into()))).map(drop),
            Err(ComposeError::Key(why)),
            "{text}"
        );
    }
    let short = profile("[idempotency]\nmax_len = 3");
    let why = ComposeError::Key(NotAKey::TooLong { len: 4, max: 3 });
    assert_eq!(compose(Some(&short), &with(KeySource::Given("abcd".into()))).map(drop), Err(why));
    assert_eq!(composed(None, &pointer("/id")).operation.key.as_str(), "o-1");
    assert_eq!(composed(None, &pointer("/n")).operation.key.as_str(), "7");
    for (text, words) in [
        ("/gone", "no key at /gone of the body: nothing is there"),
        ("/null", "no key at /null of the body: a null is there"),
        ("/o", "no key at /o of the body: an object or a list is there"),
        ("/no", "the key is empty"),
        ("id", "`id` is no JSON pointer"),
        ("", "`` is no JSON pointer"),
    ] {
        assert_eq!(refusal(None, &pointer(text)), words);
    }
    let from = |draft: Draft| Draft { key: KeySource::Pointer("/id".into()), ..draft };
    assert_eq!(refusal(None, &from(post("http://a/", "{"))), "no key at /id of the body: the body is no JSON");
    assert_eq!(refusal(None, &from(draft("http://a/"))), "no key at /id of the body: there is no body");
}

#[test]
fn the_key_travels_where_the_profile_says() {
    let rules = |text: &str| profile(&format!("[idempotency]\n{text}"));
    let body = r#"{"id":"o-1"}"#;
    let from_body = Draft { key: KeySource::Pointer("/id".into()), ..post("http://a/x", body) };
    let quoted = Draft { key: KeySource::Given(r#"a"b\c"#.into()), ..draft("http://a/x") };
    assert_eq!(sent(&composed(Some(&rules("format = 'quoted'")), &quoted)), [r#"Idempotency-Key: "a\"b\\c""#]);
    let none = composed(Some(&rules("header = ''")), &draft("http://a/x"));
    assert_eq!((sent(&none).len(), none.warnings.as_slice()), (0, &[Warning::KeyNotSent][..]));
    let query = rules("in = 'query'\nheader = 'rid'");
    let odd = Draft { key: KeySource::Given("a&b=c".into()), ..draft("http://a/x?y=1") };
    assert_eq!(composed(Some(&query), &odd).operation.request.url.sent.expose(), "http://a/x?y=1&rid=a%26b%3Dc");
    assert_eq!(refusal(Some(&query), &draft("http://a/x?rid=2")), "the URL has `rid` already, which carries the key");
    let in_body = rules("in = 'body'\nsupported = true");
    let built = composed(Some(&in_body), &from_body);
    assert_eq!(sent(&built), ["Content-Type: application/json"]);
    assert_eq!(&*built.operation.request.body, body.as_bytes());
    assert_eq!(&*built.opened.contract, "body");
    assert_eq!(compose(Some(&in_body), &draft("http://a/x")).map(drop), Err(ComposeError::KeyInBody));
    let measured = Draft { key: KeySource::Measuring("k-1".into()), ..draft("http://a/x") };
    assert!(compose(Some(&in_body), &measured).is_ok(), "what is measured needs no key");
    let named = Draft { headers: flags(&["IDEMPOTENCY-key: x"]), ..draft("http://a/x") };
    assert_eq!(refusal(None, &named), "header `Idempotency-Key` carries the idempotency key");
}

#[test]
fn what_cannot_be_sent_is_refused_without_quoting_it() {
    for (text, why) in [
        ("Authorization Bearer hush", ComposeError::HeaderSyntax),
        ("Bearer hush: x", ComposeError::Header { name: "-H".into(), why: NotAHeader::Name }),
        ("X: hush\r\nY: z", ComposeError::Header { name: "X".into(), why: NotAHeader::LineBreak }),
        ("X: ", ComposeError::Header { name: "X".into(), why: NotAHeader::Empty }),
        ("Content-Length: 3", ComposeError::Header { name: "Content-Length".into(), why: NotAHeader::Transport }),
    ] {
        assert_eq!(HeaderFlag::parse(text), Err(why.clone()));
        assert!(!why.to_string().contains("hush"), "{why}");
    }
    assert_eq!(sent(&composed(None, &Draft { headers: flags(&["Host: b"]), ..draft("http://a/") }))[0], "Host: b");
    let attempts = Draft { max_attempts: Some(0), ..draft("http://a/") };
    assert_eq!(refusal(None, &attempts), "0 attempts would send nothing");
    let late = Draft { deadline: Some(DeadlineFlag::At(NOW)), ..draft("http://a/") };
    assert_eq!(refusal(None, &late), "the deadline 2027-01-15T08:00:00.000Z has passed");
    let nobody = Draft { user: Some(Secret::new(":pw")), ..draft("http://a/") };
    assert_eq!(refusal(None, &nobody), "-u names no user");
}

#[test]
fn secrets_of_the_command_line_are_sent_and_never_kept() {
    let built = composed(None, &draft("http://bob:pw-8841%21@a/x?api_key=sk-test-77aa&lang=en"));
    let url = &built.operation.request.url;
    assert_eq!(url.sent.expose(), "http://a/x?api_key=sk-test-77aa&lang=en");
    assert_eq!((&*url.stored, &*url.shown), ("http://a/x?api_key=***&lang=en", "http://a/x?api_key=***&lang=en"));
    // base64 of bob:pw-8841!
    assert_eq!(sent(&built)[0], "Authorization: Basic Ym9iOnB3LTg4NDEh");
    assert_eq!(built.opened.headers[0], ("Authorization".into(), "$masked".into()));
    for secret in ["pw-8841!", "pw-8841%21", "sk-test-77aa", "Ym9iOnB3LTg4NDEh"] {
        assert_eq!(built.mask.hide(secret), "***", "{secret}");
        assert!(!format!("{built:?}").contains(secret), "{secret}");
    }
    let both = Draft {
        user: Some(Secret::new("ann:other-pw")),
        headers: flags(&["X-Api-Key: hush-1234", "X-Team: north"]),
        ..draft("http://bob:pw-8841@a/x")
    };
    let built = composed(None, &both);
    assert_eq!(sent(&built)[0], "Authorization: Basic YW5uOm90aGVyLXB3");
    assert_eq!(built.mask.hide("pw-8841 other-pw hush-1234 north"), "*** *** *** north");
    let stored: Vec<&str> = built.opened.headers.iter().map(|(_, value)| &**value).collect();
    assert_eq!(stored, ["$masked", "$masked", "north", "k-1"]);
    let copied =
        Draft { headers: flags(&["X-Copy: <sk-test-77aa>"]), ..draft("http://a/sk-test-77aa?token=sk-test-77aa") };
    let built = composed(None, &copied);
    assert_eq!(&*built.opened.url, "http://a/***?token=***");
    assert_eq!(built.opened.headers[0].1, "$masked".into());
    assert_eq!(sent(&built)[0], "X-Copy: <sk-test-77aa>");
    let short = composed(None, &draft("http://a/true?auth=true"));
    assert_eq!(&*short.opened.url, "http://a/true?auth=***");
    let beaten = Draft { headers: flags(&["authorization: Bearer hush-5678"]), ..both };
    assert_eq!(sent(&composed(None, &beaten)), ["authorization: Bearer hush-5678", "Idempotency-Key: k-1"]);
}

#[test]
fn status_requests_carry_credentials_to_the_same_origin_only() {
    let at = |url: &str| {
        let text = format!(
            "base_url = 'http://a'\n[status]\nurl = '{url}'\nconfirmed = [200]\n[headers]\nX-Team = 'north'\n\
             Content-Type = 'text/plain'\nAuthorization = 'Bearer hush-1234'"
        );
        let built = composed(Some(&profile(&text)), &draft("/x"));
        built.operation.status_headers.iter().map(|header| header.name.to_string()).collect::<Vec<_>>()
    };
    for url in ["/s/{key}", "http://A:80/s", "{location}"] {
        assert_eq!(at(url), ["X-Team", "Authorization"], "{url}");
    }
    for url in ["http://b/s", "http://a:81/s"] {
        assert!(at(url).is_empty(), "{url}");
    }
}

#[test]
fn attempts_are_announced_where_the_profile_says() {
    let text = "[announce]\nattempt = 'X-Attempt'\ntime_left_ms = 'X-Left'\noperation = 'X-Op'";
    let built = composed(Some(&profile(text)), &draft("http://a/x"));
    assert_eq!(sent(&built), ["X-Op: k-1", "Idempotency-Key: k-1"]);
    let announce = &built.operation.announce;
    assert_eq!((announce.attempt.as_deref(), announce.time_left_ms.as_deref()), (Some("X-Attempt"), Some("X-Left")));
    let own = Draft { headers: flags(&["x-attempt: 9", "x-op: mine"]), ..draft("http://a/x") };
    let built = composed(Some(&profile(text)), &own);
    assert_eq!((built.operation.announce.attempt.as_deref(), sent(&built).len()), (None, 3));
}

#[test]
fn the_fingerprint_counts_the_payload_and_no_secret() {
    let of = |draft: &Draft| composed(None, draft).operation.fingerprint;
    let base = of(&post("http://a/x?token=1111", r#"{"a":1,"b":2}"#));
    assert_eq!(base, of(&post("http://u:pw@A:80/x?token=2222", r#"{"b":2,"a":1}"#)));
    let flagged = Draft { headers: flags(&["X-Api-Key: hush"]), ..post("http://a/x?token=1111", r#"{"a":1,"b":2}"#) };
    assert_eq!(base, of(&flagged));
    let other = composed(None, &post("http://a/y?token=1111", r#"{"a":1.0,"b":2}"#));
    assert_ne!(base, other.operation.fingerprint);
    let recorded = composed(None, &post("http://a/x?token=3333", r#"{"a":1,"b":2}"#)).opened;
    assert_eq!(other.differences(&recorded, Some(br#"{"a":1,"b":2}"#)), ["URL", "body"]);
    let query = profile("[idempotency]\nin = 'query'\nheader = 'rid'");
    let keyed = |key: &str| Draft { key: KeySource::Given(key.into()), ..draft("http://a/x") };
    let of = |key| composed(Some(&query), &keyed(key)).operation.fingerprint;
    assert_eq!(of("k-1"), of("k-2"));
}

#[test]
fn bodies_are_kept_inline_in_a_file_or_as_a_hash() {
    let kept = |profile: Option<&Profile>, body: Vec<u8>| {
        composed(profile, &Draft { body: Some(body.into()), ..draft("http://a/x") }).opened.body.clone()
    };
    let sha = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
    let hashed = profile("[ledger]\nstore_body = 'hash'");
    assert_eq!(kept(Some(&hashed), b"test".to_vec()), StoredBody::Hash { sha: sha.into(), len: 4 });
    assert_eq!(kept(Some(&hashed), vec![]), StoredBody::Text("".into()));
    assert_eq!(kept(None, b"test".to_vec()), StoredBody::Text("test".into()));
    assert_eq!(kept(None, vec![0xff]), StoredBody::Bytes([0xff].into()));
    assert!(matches!(kept(None, vec![b'a'; 16 << 10]), StoredBody::Text(_)));
    assert!(matches!(kept(None, vec![b'a'; (16 << 10) + 1]), StoredBody::Blob { len: 16_385, .. }));
    assert!(matches!(kept(None, vec![1; 16 << 10]), StoredBody::Bytes(_)), "six bytes each in JSON");
}

/// Restores what was composed.
fn again(profile: Option<&Profile>, first: &Composed, now: Option<&Operation>) -> Result<(Operation, Policy), String> {
    let stored =
        Stored { key: &first.operation.key, opened: &first.opened, body: first.operation.request.body.clone() };
    restore(profile, &stored, now).map_err(|error| error.to_string())
}

fn wire(operation: &Operation) -> (String, Vec<String>) {
    let headers = operation.request.headers.iter();
    let lines = headers.map(|header| format!("{}: {}", header.name, header.value.sent.expose())).collect();
    (operation.request.url.sent.expose().to_owned(), lines)
}

#[test]
fn an_operation_is_restored_byte_for_byte_with_secrets_from_the_profile() {
    let text = "base_url = 'http://a/in/${PATH_KEY}'\n[headers]\nX-Sign = 'v1 ${SIGN}'\nCookie = 'c=hush-9999'\n\
                X-Odd = '$masked'\n[auth]\ntoken_env = 'T'\n[announce]\nattempt = 'X-Attempt'\n\
                [status]\nurl = '/s'\nconfirmed = [200]";
    let variables = [("PATH_KEY", "path-1234"), ("SIGN", "sign-1234"), ("T", "tok-1234")];
    let partner = Fake::with(&variables).load(text).expect("valid");
    let first = composed(Some(&partner), &post("/x?lang=en", "{ }"));
    assert_eq!(&*first.opened.url, "http://a/in/${PATH_KEY}/x?lang=en");
    let stored = format!("{:?}", first.opened);
    for secret in ["path-1234", "sign-1234", "tok-1234", "hush-9999"] {
        assert!(!stored.contains(secret), "{stored}");
    }
    let (operation, policy) = again(Some(&partner), &first, None).expect("restored");
    assert_eq!(wire(&operation), wire(&first.operation));
    assert_eq!(operation.request.body, first.operation.request.body);
    assert_eq!(operation.fingerprint, first.opened.fp);
    assert_eq!(operation.announce, first.operation.announce);
    assert_eq!(operation.status_headers.len(), first.operation.status_headers.len());
    assert_eq!(policy, first.policy);
    // Rotated secrets are taken as they are today.
    let rotated = Fake::with(&[("PATH_KEY", "path-1234"), ("SIGN", "sign-5678"), ("T", "tok-5678")]).load(text);
    let (operation, _) = again(Some(&rotated.expect("valid")), &first, None).expect("restored");
    assert!(wire(&operation).1.contains(&"Authorization: Bearer tok-5678".to_owned()));
    assert_eq!(again(None, &first, None).map(drop).unwrap_err().split(' ').next(), Some("secrets"));
    let elsewhere = profile("base_url = 'http://b'");
    let plain = composed(None, &draft("http://a/x"));
    let words = "the profile is for http://b:80, and the URL is at http://a:80";
    assert_eq!(again(Some(&elsewhere), &plain, None).map(drop), Err(words.into()));
}

#[test]
fn what_is_masked_comes_from_the_present_command_line_or_is_named() {
    let flagged = Draft {
        headers: flags(&["X-Api-Key: hush-1234", "X-Team: north"]),
        ..post("http://bob:pw-8841@a/x?token=sk-77aa", "{}")
    };
    let first = composed(None, &flagged);
    let (operation, _) = again(None, &first, Some(&first.operation)).expect("restored");
    assert_eq!(wire(&operation), wire(&first.operation));
    let words = "secrets of http://a/x?token=*** are not kept in the ledger and not known here";
    assert_eq!(again(None, &first, None).map(drop), Err(words.into()));
    let masked = composed(None, &Draft { headers: flags(&["X-Api-Key: hush-1234"]), ..draft("http://a/x") });
    let words = "the value of header `X-Api-Key` is not kept in the ledger and not known here";
    assert_eq!(again(None, &masked, None).map(drop), Err(words.into()));
    let given = profile("[headers]\nx-api-key = 'hush-5678'");
    let (operation, _) = again(Some(&given), &masked, None).expect("restored");
    assert_eq!(wire(&operation).1[0], "X-Api-Key: hush-5678");
}

#[test]
fn a_masked_url_is_filled_and_keeps_the_key_that_it_has() {
    let query = profile("[idempotency]\nin = 'query'\nheader = 'rid'");
    let keyed = |key: &str, target: &str| Draft { key: KeySource::Made(key.into()), ..draft(target) };
    let first = composed(Some(&query), &keyed("k-1", "http://a/x?token=sk-77aa&b=1"));
    let now = composed(Some(&query), &keyed("k-2", "http://a/x?token=sk-88bb&b=1"));
    let (operation, _) = again(Some(&query), &first, Some(&now.operation)).expect("restored");
    assert_eq!(operation.request.url.sent.expose(), "http://a/x?token=sk-88bb&b=1&rid=k-1");
    for target in ["http://a/y?token=sk-88bb", "http://a/x?token=1&token=2", "http://a/x"] {
        let now = composed(Some(&query), &keyed("k-2", target));
        assert!(again(Some(&query), &first, Some(&now.operation)).is_err(), "{target}");
    }
}

#[test]
fn a_key_header_flag_still_counts_after_the_first_run() {
    let keyed = Draft { key_header: Some("X-Once".into()), ..post("http://a/x", "{}") };
    let (_, policy) = again(None, &composed(None, &keyed), None).expect("restored");
    assert!(policy.idempotency.supported);
    assert_eq!(&*policy.idempotency.contract(), "header:x-once:raw");
    let (_, policy) = again(None, &composed(None, &post("http://a/x", "{}")), None).expect("restored");
    assert_eq!(policy.idempotency, Idempotency::default());
}
