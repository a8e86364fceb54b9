//! URLs with secrets in the places where people put them: what is stored and shown never holds them.
#![no_main]

use abide::engine::facts::{Owner, Why};
use abide::engine::moment::Timestamp;
use abide::profile::compose::{Draft, KeySource, TimeoutFlags, compose};
use libfuzzer_sys::fuzz_target;

const SECRET: &str = "Zx9q-secret-9xZq";
/// A part of it that nothing else may hold: what a person writes into a path is no secret.
const MARK: &str = "9xZq";

fuzz_target!(|input: (&str, &str, &str, u8)| {
    let (host, path, query, place) = input;
    if [host, path, query].iter().any(|part| part.contains(MARK)) {
        return;
    }
    let target = match place % 4 {
        0 => format!("http://u:{SECRET}@{host}/{path}?{query}"),
        1 => format!("http://{host}/{path}?token={SECRET}&{query}"),
        2 => format!("http://{host}/{path}?{query}&API-Key={SECRET}"),
        _ => format!("https://{SECRET}@{host}/{path}?{query}"),
    };
    let draft = Draft {
        method: None,
        target,
        headers: Vec::new(),
        user: None,
        body: None,
        json: false,
        key: KeySource::Made("k-1".into()),
        key_header: None,
        account: None,
        deadline: None,
        valid_until: None,
        max_attempts: None,
        timeouts: TimeoutFlags::default(),
        now: Timestamp::default(),
        why: Why::Send,
        owner: Owner::default(),
    };
    match compose(None, &draft) {
        Ok(composed) => {
            let url = &composed.operation.request.url;
            let written = format!("{} {} {:?} {:?}", url.stored, url.shown, composed.opened, composed.operation);
            assert!(!written.contains(SECRET), "{written}");
        }
        Err(error) => {
            let words = format!("{error} {error:?}");
            assert!(!words.contains(SECRET), "{words}");
        }
    }
});
