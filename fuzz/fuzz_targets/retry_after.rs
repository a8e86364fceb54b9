//! Retry-After as a partner may write it: a wait is never shorter than the plainest reading of the field.
#![no_main]

use abide::engine::exchange::Headers;
use abide::engine::moment::Timestamp;
use abide::engine::retry_after::{RetryAfter, read};
use libfuzzer_sys::fuzz_target;
use std::time::Duration;

fuzz_target!(|input: (i64, Vec<&str>, Option<&str>)| {
    let (now, fields, date) = input;
    let now = Timestamp::from_unix_ms(now);
    let mut headers: Vec<(Box<str>, Box<str>)> =
        fields.iter().map(|field| ("retry-after".into(), (*field).into())).collect();
    headers.extend(date.map(|date| ("date".into(), date.into())));
    let said = read(&Headers(headers), now);
    assert_eq!(said == RetryAfter::Absent, fields.is_empty());
    for field in fields {
        let Ok(seconds) = field.trim_matches([' ', '\t']).parse::<u64>() else { continue };
        if field.contains('+') {
            continue;
        }
        let RetryAfter::Wait(wait) = said else { panic!("{field:?} is a number of seconds: {said:?}") };
        assert!(wait >= Duration::from_secs(seconds), "{field:?} reads as {wait:?}");
    }
});
