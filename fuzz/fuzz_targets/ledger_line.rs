//! Lines of a ledger that anybody may have written: reading never panics, and what is read can be written again.
#![no_main]

use abide::store::format;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|line: &[u8]| {
    let _ = format::envelope(line);
    let _ = format::first_line(line);
    let _ = format::identity(line);
    let _ = format::note(line);
    let _ = format::whose(line);
    let _ = format::verdict(line);
    let Some((key, recorded)) = format::fact(line) else { return };
    let entry = format::Entry {
        n: recorded.n,
        key: &key,
        at: recorded.at,
        fact: &recorded.fact,
        opened_at: None,
        durable: 0,
    };
    let again = format::fact_line(&entry);
    let (key_again, read_again) = format::fact(&again).expect("what we write, we read");
    assert_eq!(key_again, key);
    assert_eq!(read_again, recorded);
});
