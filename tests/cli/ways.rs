//! The way to the partner: proxies and given addresses, as the user names them and sees them.

use crate::sandbox::{Host, Sandbox, filters};
use abide::rehearse::partner::{Act, Fault, Reply, Script, Turn};
use insta::assert_snapshot;

/// A name that exists nowhere.
const PARTNER: &str = "http://partner.test:8080/orders";

fn order<'a>(url: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let order = ["send", "POST", url, "--json", "{}", "--key", "k1", "--ledger", "l.jsonl", "--max-attempts", "1"];
    [&order[..], more].concat()
}

#[test]
fn a_proxy_that_wants_credentials_is_not_the_partners_refusal() {
    let sandbox = Sandbox::new();
    let script = Script::always(Turn::not_done(Act::Answer(Reply::status(407))));
    let proxy = Host::start(script);
    let url = proxy.url("").replace("http://", "http://bob:s3cret@");
    let text = sandbox.run(&order(PARTNER, &["-x", &url]));
    insta::with_settings!({filters => filters()}, { assert_snapshot!(text, @r"
    ----- stderr
    k1: attempt 1 through the proxy 127.0.0.1:[PORT]: 407 in [TIME], the proxy wants credentials, or other ones; not executed (configuration)
    k1: not done: certainly not executed
        attempt 1: 407 in [TIME], the proxy wants credentials, or other ones; not executed
        the credentials were refused
        next: correct the credentials, then replay it: that is safe
            abide replay k1 --ledger [DIR]/l.jsonl -x 'http://***@127.0.0.1:[PORT]'
    ----- exit 3
    ") });
    assert!(!sandbox.read("l.jsonl").contains("s3cret"));
    let seen = proxy.seen();
    assert_eq!((seen.heads, seen.requests[0].path.as_str()), (1, PARTNER));
}

#[test]
fn the_proxy_of_the_environment_is_named_with_its_variable() {
    let sandbox = Sandbox::new();
    let dry = |variables: &[(&str, &str)], more: &[&str]| {
        let output =
            sandbox.abide(&order(PARTNER, &[&["--dry-run"], more].concat())).envs(variables.iter().copied()).output();
        let text = sandbox.shown(&output.expect("the binary runs"));
        let told = |line: &&str| ["proxy ", "warning", "error", "hint"].iter().any(|start| line.starts_with(start));
        text.lines().filter(told).collect::<Vec<_>>().join("\n")
    };
    const PROXY: (&str, &str) = ("http_proxy", "http://bob:s3cret@proxy.test:3128");
    let cases = [
        dry(&[PROXY], &[]),
        dry(&[PROXY, ("NO_PROXY", "partner.test:8080")], &[]),
        dry(&[PROXY, ("NO_PROXY", "10.0.0.0/99")], &[]),
        dry(&[PROXY], &["-x", ""]),
        dry(&[PROXY], &["-x", "socks5h://other.test:1080"]),
        dry(&[("http_proxy", "proxy.test:3128")], &[]),
    ];
    assert_snapshot!(cases.join("\n"), @r"
    proxy        http://***@proxy.test:3128 (http_proxy)
    proxy        none
    proxy        http://***@proxy.test:3128 (http_proxy)
    warning: NO_PROXY: `10.0.0.0/99` is neither a host nor a network and is ignored
    proxy        none
    proxy        socks5h://other.test:1080 (-x)
    error: the proxy in http_proxy has no scheme such as http://; nothing was sent
    hint: write http://HOST:PORT, socks5://HOST:PORT or socks5h://HOST:PORT; -x '' or an entry in NO_PROXY passes by none, whatever http_proxy says
    ");
    assert!(!sandbox.path().join("l.jsonl").exists(), "nothing is recorded");
}

#[test]
fn a_given_address_is_dialled_and_the_host_stays() {
    let sandbox = Sandbox::new();
    let partner = Host::start(Fault::Fine.script());
    let port = partner.url("").rsplit(':').next().expect("a port").to_owned();
    let url = format!("http://partner.test:{port}/orders");
    let resolve = format!("partner.test:{port}:127.0.0.1");
    let (code, _) = sandbox.status(&order(&url, &["--resolve", &resolve]));
    assert_eq!(code, 0);
    assert_eq!(partner.seen().requests[0].header("host"), Some(format!("partner.test:{port}").as_str()));
}

#[test]
fn a_gateway_that_answers_in_the_partners_place_is_named() {
    let sandbox = Sandbox::new();
    let report = "edge; error=connection_refused; details=\"no listener\"";
    let refusal = Reply::status(502).header("Proxy-Status", report);
    let partner = Host::start(Script::always(Turn::not_done(Act::Answer(refusal))));
    let words = "answered by a gateway, not by the partner: edge reports connection_refused (no listener)";
    let text = sandbox.run(&order(&partner.url("/orders"), &["-v"]));
    assert!(text.contains(&format!("[{words}]")), "the attempt: {text}");
    assert!(text.contains(&format!("\n    {words}\n")) && text.ends_with("exit 4"), "the verdict: {text}");
    let (_, json) = sandbox.status(&["status", "k1", "--ledger", "l.jsonl", "--format", "json"]);
    assert!(json.contains(&format!("\"gateway\":\"{words}\"")), "{json}");

    sandbox.write("trusting.toml", "[classify]\ntrust_proxy_status = true\n");
    let again = ["send", "POST", &partner.url("/orders"), "--json", "{}", "--ledger", "l.jsonl", "--max-attempts", "1"];
    let text = sandbox.run(&[&again[..], &["-p", "trusting.toml", "--key", "k2"]].concat());
    assert!(
        text.contains("a gateway says that the request never reached the partner") && text.ends_with("exit 3"),
        "{text}"
    );
}

#[test]
fn a_redirect_says_where_it_points_and_what_follows_it() {
    let sandbox = Sandbox::new();
    let partner = Host::start(Script::always(Turn::not_done(Act::Answer(Reply::redirect(302, "/v2?sig=s3cret")))));
    let url = partner.url("/v1");
    let text = sandbox.run(&["send", &url, "--ledger", "none"]);
    assert!(text.contains("it points to /v2; -L follows redirects\n") && text.ends_with("exit 3"), "{text}");
    let text = sandbox.run(&["send", &url, "-L", "--ledger", "l.jsonl"]);
    assert!(text.contains(&format!("a redirect, followed to {}", partner.url("/v2?***"))), "{text}");
    assert!(text.contains("the redirects lead in a circle") && text.ends_with("exit 3"), "{text}");
    assert!(!text.contains("s3cret"), "{text}");
    assert!(!sandbox.read("l.jsonl").contains("s3cret"), "{}", sandbox.read("l.jsonl"));
    assert_eq!(partner.seen().heads, 3);
}
