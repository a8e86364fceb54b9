use super::*;

#[test]
fn a_proxy_is_read_with_its_exclusions_and_its_credentials_from_a_variable() {
    let mut world = Fake::with(&[("PROXY_LOGIN", "bob:p%40ssword")]);
    let text = "[proxy]\nurl = 'http://${PROXY_LOGIN}@proxy.example:3128'\nno_proxy = ['10.0.0.0/8', 'a.example']";
    let profile = world.load(text).expect("is read");
    let proxy = profile.proxy.url.as_ref().expect("a proxy");
    assert_eq!(proxy.to_string(), "http://***@proxy.example:3128");
    assert_eq!(proxy.credentials.as_ref().map(|(_, password)| password.expose()), Some("p@ssword"));
    assert!(profile.proxy.exclusions.cover("10.1.2.3", 80) && profile.proxy.exclusions.cover("a.example", 80));
    assert_eq!(profile.mask.hide("p@ssword p%40ssword"), "*** ***");
    assert!(profile.proxy.from_env, "the default");
    let literal =
        world.load("[proxy]\nurl = 'socks5://bob:s3cret@proxy.example:1080'\nfrom_env = false").expect("is read");
    assert!(!literal.proxy.from_env);
    let shown = show(&literal).into_iter().find(|setting| &*setting.name == "proxy.url").expect("is shown");
    assert!(!shown.value.contains("s3cret"), "{}", shown.value);
}

#[test]
fn what_names_no_proxy_is_refused_with_its_line() {
    for (text, words) in [
        (
            "[proxy]\nurl = 'proxy.example:3128'",
            "p.toml:2: `proxy.url` has no scheme such as http:// | write http://HOST:PORT, socks5://HOST:PORT or socks5h://HOST:PORT",
        ),
        (
            "[proxy]\nurl = 'http://bob:s3cret@proxy.example'",
            "p.toml:2: `proxy.url` names no port | write http://HOST:PORT, socks5://HOST:PORT or socks5h://HOST:PORT",
        ),
        (
            "[proxy]\nno_proxy = 'a.example, 10.0.0.0/99'",
            "p.toml:2: `proxy.no_proxy` has `10.0.0.0/99`, which is neither host nor network | write a name, an address or a network such as 10.0.0.0/8, with :PORT for one port only",
        ),
        ("[proxy]\nfrom_env = 'no'", "p.toml:2: `proxy.from_env` is a text, expected true or false"),
        (
            "[proxy]\nurl = '${NOWHERE}'",
            "p.toml:2: `proxy.url`: the variable NOWHERE is unset | export NOWHERE=… before running abide",
        ),
        ("[proxy]\nadress = 1", "p.toml:2: unknown key `proxy.adress`"),
        (
            "[classify]\ntrust_proxy_status = 1",
            "p.toml:2: `classify.trust_proxy_status` is a number, expected true or false",
        ),
    ] {
        assert_eq!(complaint(text), words, "{text}");
    }
}
