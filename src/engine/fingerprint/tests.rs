use super::*;
use proptest::prelude::*;

/// An operation with all its texts, so that a test can change one.
#[derive(Clone)]
struct Sample {
    partner: PartnerName,
    account: Option<&'static str>,
    method: Method,
    url: String,
    query_left_out: Vec<Box<str>>,
    content_type: Option<&'static str>,
    headers: Vec<(Box<str>, Box<str>)>,
    body: Vec<u8>,
    key_in_body: Option<Pointer>,
}

impl Sample {
    fn head(&self) -> Head<'_> {
        Head {
            partner: &self.partner,
            account: self.account,
            method: &self.method,
            url: &self.url,
            query_left_out: &self.query_left_out,
            content_type: self.content_type,
            headers: &self.headers,
        }
    }

    fn parts(&self) -> Parts<'_> {
        Parts { head: self.head(), body: &self.body, key_in_body: self.key_in_body.as_ref() }
    }

    fn print(&self) -> String {
        fingerprint(&self.parts()).to_string()
    }
}

fn sample() -> Sample {
    Sample {
        partner: PartnerName::new("acme-pay").expect("a name"),
        account: Some("live"),
        method: Method::new("POST").expect("a method"),
        url: "https://api.acme.example/orders?a=1&b=~2".into(),
        query_left_out: vec!["api_key".into()],
        content_type: Some("application/json"),
        headers: vec![("X-Shop".into(), "7".into()), ("X-Shop".into(), "8".into()), ("X-Team".into(), "n".into())],
        body: br#"{"amount":12.50,"items":[1,2],"to":"x"}"#.to_vec(),
        key_in_body: None,
    }
}

/// What is changed, in words, and how.
type Change = (&'static str, fn(&mut Sample));

fn changed(change: impl FnOnce(&mut Sample)) -> Sample {
    let mut sample = sample();
    change(&mut sample);
    sample
}

#[test]
fn a_fingerprint_never_changes_over_versions() {
    assert_eq!(sample().print(), "v1:9fa5c277bb608c634daaab900573e1aeacfcf33e9fb059444178d99e8c41529f");
    let bare = Sample {
        partner: PartnerName::new("h:80").expect("a name"),
        account: None,
        method: Method::new("DELETE").expect("a method"),
        url: "http://h/1".into(),
        query_left_out: vec![],
        content_type: None,
        headers: vec![],
        body: vec![],
        key_in_body: None,
    };
    assert_eq!(bare.print(), "v1:58d0296d6cdf7e1bb237cf3a634421946e9fd06f8b376292354a3bd2caa1d0e1");
}

#[test]
fn ways_to_write_one_operation_have_one_fingerprint() {
    let same: [Change; 9] = [
        ("order of names, blanks", |s| s.body = b" {\"to\":\"x\", \"items\":[1, 2],\n\"amount\":12.50}\n".to_vec()),
        ("escapes", |s| s.body = br#"{"amount":12.50,"items":[1,2],"t\u006f":"\u0078"}"#.to_vec()),
        ("default port", |s| s.url = "https://api.acme.example:443/orders?a=1&b=~2".into()),
        ("case of the host", |s| s.url = "HTTPS://API.acme.example/orders?a=1&b=~2".into()),
        ("encoding", |s| s.url = "https://api.acme.example/%6frders?a=1&b=%7e2".into()),
        ("userinfo, fragment", |s| s.url = "https://u:p@api.acme.example/x/../orders?a=1&b=~2#f".into()),
        ("secret parameter", |s| s.url = "https://api.acme.example/orders?api_key=s3cret&a=1&b=~2".into()),
        ("content type parameters", |s| s.content_type = Some("Application/JSON; charset=utf-8")),
        ("order of headers", |s| {
            s.headers =
                vec![("x-team".into(), " n ".into()), ("x-SHOP".into(), "7".into()), ("x-shop".into(), "8".into())]
        }),
    ];
    for (what, change) in same {
        let other = changed(change);
        assert_eq!(other.print(), sample().print(), "{what}");
        assert!(differences(&sample().head(), Some(&sample().body), &other.parts()).is_empty(), "{what}");
    }
}

#[test]
fn operations_with_different_meanings_differ_and_the_difference_is_named() {
    let different: [Change; 18] = [
        ("partner", |s| s.partner = PartnerName::new("acme").expect("a name")),
        ("account", |s| s.account = Some("test")),
        ("account", |s| s.account = None),
        ("account", |s| s.account = Some("")),
        ("method", |s| s.method = Method::new("PUT").expect("a method")),
        ("URL", |s| s.url = "https://api.acme.example/orders?b=~2&a=1".into()),
        ("URL", |s| s.url = "http://api.acme.example/orders?a=1&b=~2".into()),
        ("URL", |s| s.url = "https://api.acme.example/orders?a=1&a=1&b=~2".into()),
        ("content type", |s| s.content_type = Some("application/vnd.acme+json")),
        ("headers", |s| s.headers.truncate(2)),
        ("headers", |s| s.headers.swap(0, 1)),
        ("headers", |s| s.headers[2].1 = "N".into()),
        ("body", |s| s.body = br#"{"amount":12.5,"items":[1,2],"to":"x"}"#.to_vec()),
        ("body", |s| s.body = br#"{"amount":12.50,"items":[2,1],"to":"x"}"#.to_vec()),
        ("body", |s| s.body = br#"{"amount":"12.50","items":[1,2],"to":"x"}"#.to_vec()),
        ("body", |s| s.body = br#"{"amount":12.50,"items":[1,2],"to":"x","to":"x"}"#.to_vec()),
        ("body", |s| s.body = br#"{"amount":12.50,"items":[1,2],"to":"x""#.to_vec()),
        ("body", |s| s.body.clear()),
    ];
    for (what, change) in different {
        let other = changed(change);
        assert_ne!(other.print(), sample().print(), "{what}");
        assert_eq!(differences(&sample().head(), Some(&sample().body), &other.parts()), [what]);
        assert_eq!(differences(&sample().head(), None, &other.parts()), [what], "body unknown");
    }
}

#[test]
fn several_differences_are_all_named() {
    let other = changed(|s| {
        s.method = Method::new("PATCH").expect("a method");
        s.body = b"{}".to_vec();
    });
    assert_eq!(differences(&sample().head(), Some(&sample().body), &other.parts()), ["method", "body"]);
    assert_eq!(differences(&sample().head(), None, &other.parts()), ["method"]);
}

#[test]
fn text_cannot_move_from_one_field_to_the_next() {
    let header = |name: &str, value: &str| changed(|s| s.headers = vec![(name.into(), value.into())]);
    assert_ne!(header("a", "bc").print(), header("ab", "c").print());
    let partner = |partner: &str, account| {
        changed(|s| {
            s.partner = PartnerName::new(partner).expect("a name");
            s.account = Some(account);
        })
    };
    assert_ne!(partner("ab", "c").print(), partner("a", "bc").print());
}

#[test]
fn json_is_recognised_by_its_type_and_by_the_lack_of_one() {
    let reordered = |content_type| {
        let one = changed(|s| s.content_type = content_type);
        let mut other = one.clone();
        other.body = br#"{"items":[1,2],"to":"x","amount":12.50}"#.to_vec();
        one.print() == other.print()
    };
    for json in [None, Some(""), Some("application/json"), Some("application/problem+json;v=1")] {
        assert!(reordered(json), "{json:?}");
    }
    for other in ["text/plain", "application/x-www-form-urlencoded", "application/jsonp", "application/octet-stream"] {
        assert!(!reordered(Some(other)), "{other}");
    }
}

#[test]
fn invalid_json_and_doubled_names_count_byte_for_byte() {
    for (one, other) in [("{\"a\":1", "{\"a\": 1"), (r#"{"a":1,"a":2}"#, r#"{"a":2,"a":1}"#), ("x", "x ")] {
        let print = |body: &str| changed(|s| s.body = body.into()).print();
        assert_ne!(print(one), print(other), "{one} {other}");
        assert_eq!(print(one), print(one), "{one}");
    }
}

#[test]
fn the_key_inside_the_body_does_not_count() {
    let with = |key: &str, content_type| {
        changed(|s| {
            s.key_in_body = Pointer::new("/idempotency_key");
            s.content_type = content_type;
            s.body = format!(r#"{{"amount":1,"idempotency_key":"{key}"}}"#).into_bytes();
        })
    };
    for content_type in [None, Some("application/json"), Some("text/plain")] {
        assert_eq!(with("k1", content_type).print(), with("k2", content_type).print());
        let mut without = with("k1", content_type);
        without.body = br#"{"amount":1}"#.to_vec();
        assert_eq!(without.print(), with("k2", content_type).print());
        without.body = br#"{"amount":2}"#.to_vec();
        assert_ne!(without.print(), with("k2", content_type).print());
    }
}

proptest! {
    #[test]
    fn a_fingerprint_is_v1_and_64_hex_digits(url in "\\PC{0,20}", body in prop::collection::vec(any::<u8>(), 0..40)) {
        let print = changed(|s| (s.url, s.body) = (url, body)).print();
        let digits = print.strip_prefix("v1:").expect("the version");
        prop_assert_eq!(digits.len(), 64);
        prop_assert!(digits.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)));
    }

    #[test]
    fn other_bodies_have_other_fingerprints(one in prop::collection::vec(any::<u8>(), 0..20), at in any::<prop::sample::Index>()) {
        prop_assume!(!one.is_empty());
        let mut other = one.clone();
        other[at.index(one.len())] ^= 1;
        let print = |body| changed(|s| (s.content_type, s.body) = (Some("text/plain"), body)).print();
        prop_assert_ne!(print(one), print(other));
    }

    #[test]
    fn differences_are_found_exactly_where_fingerprints_differ(
        urls in prop::array::uniform2("http://h/[ab]?"), bodies in prop::array::uniform2("[ 1]{1,2}"),
        accounts in prop::array::uniform2(prop::option::of(prop::sample::select(vec!["", "a"]))),
    ) {
        let [one, other] = [0, 1].map(|n| changed(|s| {
            (s.url, s.body, s.account) = (urls[n].clone(), bodies[n].clone().into_bytes(), accounts[n]);
        }));
        let differing = differences(&one.head(), Some(&one.body), &other.parts());
        prop_assert_eq!(differing.is_empty(), one.print() == other.print(), "{:?}", differing);
    }
}
