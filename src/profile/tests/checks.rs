use super::*;

fn remarks(text: &str) -> Vec<String> {
    check(&profile(text)).iter().map(|remark| format!("{:?} {remark}", remark.level)).collect()
}

/// Says everything that a verdict needs.
const COMPLETE: &str = "[idempotency]\nsupported = true\nretention = '24h'\n[status]\nurl = '/s/{key}'\n\
                        confirmed = { pointer = '/s' }\nabsent = { status = 404, pointer = '/e' }\nsettle = '30s'\n";

#[test]
fn the_defaults_pass_with_a_promise_for_users() {
    let first = "Note worst case 2m10s, with a Retry-After or status requests 2m30s: promise users 3m";
    assert_eq!(remarks(COMPLETE), [first]);
    let empty = remarks("");
    assert_eq!(empty[0], first);
    assert!(empty[1].starts_with("Advice after a lost answer nothing here can tell"), "{empty:?}");
    assert_eq!(empty.len(), 2);
}

#[test]
fn attempts_that_can_never_start_are_named() {
    let with = |timeouts: &str| remarks(&format!("{COMPLETE}\n{timeouts}")).split_off(1);
    // Least waits 1 + 2 + 4 + 8: the third one ends at 7 s.
    assert_eq!(
        with("[timeouts]\noverall = '6s'\nattempt = '500ms'"),
        [
            "Warning attempts 4 and 5 can never start: the waits before leave nothing of overall = 6s",
            "Advice attempt 3 will not start where those before take their full 500ms",
        ]
    );
    assert_eq!(
        with("[timeouts]\noverall = '1m'"),
        ["Advice attempts 4 and 5 will not start where those before take their full 20s"]
    );
    assert_eq!(
        with(
            "[timeouts]\noverall = '1m'\n[retry]\nmax_attempts = 4000000000\nbase = '1s'\ncap = '1s'\njitter = 'full'"
        ),
        ["Advice attempts 4 to 4000000000 will not start where those before take their full 20s"]
    );
    assert_eq!(
        with("[timeouts]\noverall = '1s'"),
        ["Warning attempts 2 to 5 can never start: the waits before leave nothing of overall = 1s"]
    );
}

#[test]
fn what_is_missing_for_a_verdict_is_said() {
    for (text, words) in [
        ("[idempotency]\nsupported = true", "Advice [idempotency] retention is not stated"),
        ("[idempotency]\nsupported = true\nretention = '1d'", "Advice no [status]: after the key's retention"),
        ("[status]\nurl = '/s'\nconfirmed = [200]", "Advice [status] has no absent rule"),
        ("[status]\nurl = '/s'\nconfirmed = [200]\nabsent = [404]", "Advice [status] settle is not stated"),
        (
            "[status]\nurl = '/s'\nconfirmed = [200]\nabsent = [404]\nsettle = '5s'",
            "Advice [status] absent looks at the HTTP status only",
        ),
        (
            "base_url = 'http://a.example'\n[status]\nurl = 'http://b.example/s'\nconfirmed = [200]",
            "Warning [status] is at http://b.example:80: no credentials are sent there",
        ),
        ("[breaker]\nconsecutive = 5", "Warning [breaker] is checked, but not in force"),
        ("[measured]\np50 = '30s'", "Warning half of all calls take longer than attempt = 20s"),
    ] {
        let said = remarks(text);
        assert_eq!(said.iter().filter(|remark| remark.starts_with(words)).count(), 1, "{text}: {said:#?}");
    }
    let control = "[status]\nurl = '/s/{key}'\nconfirmed = [200]\nabsent = [404]\nsettle = '5s'\ncontrol_key = 'k'";
    assert_eq!(remarks(control).len(), 1, "a control key says enough");
}

#[test]
fn an_endpoint_is_remarked_only_where_it_differs() {
    let same = format!("{COMPLETE}\n[[endpoint]]\npath = '/a'\n");
    assert_eq!(remarks(&same).len(), 1);
    let slower = format!("{COMPLETE}\n[[endpoint]]\nmethod = 'POST'\npath = '/a'\ntimeouts = {{ overall = '1m' }}");
    assert_eq!(
        remarks(&slower)[1..],
        [
            "Note POST /a: worst case 1m: promise users 1m30s",
            "Advice POST /a: attempts 4 and 5 will not start where those before take their full 20s",
        ]
    );
}

#[test]
fn show_says_where_each_value_came_from_and_keeps_secrets() {
    let mut world = Fake::with(&[("T", "tok-1234")]);
    world.commands.insert("pass", ("hush-1234", Some(0)));
    let text = "[timeouts]\nread = '40s'\n[headers]\nCookie = 'a=hush-5678'\nX-Team = 'north'\nX-T = '${T}'\n\
                [auth]\ntoken_command = ['pass', 'hush-1234']\n[[endpoint]]\npath = '/a'\ntimeouts.read = '1m'";
    let settings = show(&world.load(text).expect("valid"));
    let value = |name: &str| {
        let setting = settings.iter().find(|setting| &*setting.name == name).expect(name);
        (setting.value.to_string(), setting.origin)
    };
    assert_eq!(value("timeouts.connect"), ("\"3s\"".into(), SettingOrigin::Default));
    assert_eq!(value("timeouts.overall"), ("\"2m30s\"".into(), SettingOrigin::Default));
    assert_eq!(value("timeouts.read"), ("'40s'".into(), SettingOrigin::Line(2)));
    assert_eq!(value("headers.Cookie"), ("\"***\"".into(), SettingOrigin::Line(4)));
    assert_eq!(value("headers.X-Team"), ("'north'".into(), SettingOrigin::Line(5)));
    assert_eq!(value("headers.X-T"), ("'${T}'".into(), SettingOrigin::Line(6)));
    assert_eq!(value("auth.token_command"), ("['pass', …]".into(), SettingOrigin::Line(8)));
    assert_eq!(value("endpoint[1].timeouts.read"), ("'1m'".into(), SettingOrigin::Line(11)));
    let all = format!("{settings:?}");
    for secret in ["hush", "tok-1234"] {
        assert!(!all.contains(secret), "{all}");
    }
}

#[test]
fn the_defaults_shown_are_those_in_force() {
    let defaults: Vec<Setting> = show(&profile(""));
    let text: String = defaults
        .iter()
        .filter(|setting| !setting.value.starts_with('('))
        .map(|setting| format!("{} = {}\n", setting.name, setting.value))
        .collect();
    let stated = profile(&text);
    assert_eq!(policy(&stated, "POST", "http://a/"), policy(&profile(""), "POST", "http://a/"));
    assert_eq!(stated.ledger, LedgerRules::default());
}
