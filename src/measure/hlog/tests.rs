//! What is written is read by others and by us, and damage costs one line.

use super::super::counted::latencies;
use super::*;
use crate::engine::suggest::share::Share;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use hdrhistogram::serialization::{Deserializer, V2Serializer};

const START: Timestamp = Timestamp::from_unix_ms(1_795_000_000_125);

fn counted(ms: impl IntoIterator<Item = u64>) -> Counted {
    let mut counted = Counted::default();
    for ms in ms {
        counted.record(Duration::from_millis(ms)).expect("short enough");
    }
    counted
}

/// Returns a file of three lines, the second of them tagged.
fn written() -> String {
    let mut out = Vec::new();
    let minutes = |n: u64| Duration::from_secs(300 * n);
    write_header(&mut out, START).expect("memory takes it");
    write_line(&mut out, None, START, minutes(1), &counted(1..=100)).expect("memory takes it");
    write_line(&mut out, Some("read.censored"), START, minutes(1), &counted([60_000])).expect("memory takes it");
    write_line(&mut out, None, START.after(minutes(1)), minutes(1), &counted(1..=200)).expect("memory takes it");
    String::from_utf8(out).expect("text")
}

fn samples(interval: &Interval) -> u64 {
    interval.bins.iter().map(|bin| bin.count).sum()
}

#[test]
fn what_is_written_is_read_back() {
    let log = read(written().as_bytes(), Unit::Nanoseconds);
    assert_eq!(log.bad, []);
    let [first, censored, second] = &log.intervals[..] else { panic!("{log:?}") };
    assert_eq!((first.tag.as_deref(), censored.tag.as_deref()), (None, Some("read.censored")));
    assert_eq!((first.start, first.length), (START, Duration::from_secs(300)));
    assert_eq!(second.start.since(first.start), Duration::from_secs(300));
    assert_eq!(first.bins, counted(1..=100).bins().collect::<Vec<_>>());
    let events = [first, second].into_iter().flat_map(|interval| interval.bins.iter().copied());
    let found = latencies(events, censored.bins.iter().copied(), None).expect("bins of one kind");
    assert_eq!((found.events(), found.censored()), (300, 1));
    assert!(found.value(Share::P99).is_ok_and(|value| value.as_millis() == 198));
}

#[test]
fn other_readers_read_it() {
    let text = written();
    let mut found = Vec::new();
    for entry in IntervalLogIterator::new(text.as_bytes()) {
        match entry.expect("a line that is understood") {
            LogEntry::Interval(interval) => {
                let packed = STANDARD.decode(interval.encoded_histogram()).expect("base64");
                let histogram: Histogram<u64> =
                    Deserializer::new().deserialize(&mut packed.as_slice()).expect("a histogram");
                found.push((interval.tag().map(|tag| tag.as_str().to_owned()), histogram.len(), interval.max()));
                assert!(interval.start_timestamp().as_millis() >= 1_795_000_000_125);
            }
            LogEntry::StartTime(start) => assert_eq!(start.as_millis(), 1_795_000_000_125),
            LogEntry::BaseTime(base) => panic!("{base:?}"),
        }
    }
    let tag = Some("read.censored".to_owned());
    assert_eq!(
        found.iter().map(|(tag, n, _)| (tag.clone(), *n)).collect::<Vec<_>>(),
        [(None, 100), (tag, 1), (None, 200)]
    );
    assert!((found[0].2 - 100.0).abs() < 0.1, "milliseconds: {}", found[0].2);
}

#[test]
fn damage_costs_the_line_and_nothing_else() {
    let text = written();
    let cut = &text[..text.len() - 30];
    let log = read(cut.as_bytes(), Unit::Nanoseconds);
    assert_eq!((log.intervals.len(), &log.bad[..]), (2, &[(7, BadLine::Histogram)][..]));
    let lines: Vec<&str> = text.lines().collect();
    let garbage = [lines[4], "\u{0}\u{0}garbage", "1,x,3,AAAA", "1,2,3,AAAA", "1,2", "Tag=a", "-1,2,3,AAAA", lines[6]];
    let log = read(garbage.join("\r\n").as_bytes(), Unit::Nanoseconds);
    let (fields, time) = (BadLine::Fields, BadLine::Time);
    let bad = [(2, fields), (3, time), (4, BadLine::Histogram), (5, fields), (6, fields), (7, time)];
    assert_eq!((log.intervals.iter().map(samples).collect::<Vec<_>>(), &log.bad[..]), (vec![100, 200], &bad[..]));
    let invalid = [b"\xff\xfe,1,2,3\n", lines[4].as_bytes()].concat();
    assert_eq!(read(&invalid, Unit::Nanoseconds).bad, [(1, fields)]);
}

#[test]
fn every_byte_may_be_damaged() {
    let text = written().into_bytes();
    let from = text.len() - 400;
    for at in from..text.len() {
        let mut damaged = text.clone();
        damaged[at] ^= 0x15;
        let log = read(&damaged, Unit::Nanoseconds);
        assert!(log.intervals.len() + log.bad.len() >= 1, "byte {at}");
    }
}

/// Returns a line of a file of another tool that counts in its own unit.
fn of_others(start: &str, values: impl IntoIterator<Item = u64>) -> String {
    let mut histogram = Histogram::<u64>::new_with_bounds(1, 3_600_000_000, 3).expect("a histogram");
    values.into_iter().for_each(|value| histogram.record(value).expect("within bounds"));
    let mut plain = Vec::new();
    V2Serializer::new().serialize(&histogram, &mut plain).expect("memory takes it");
    format!("{start},1.0,0.2,{}\n", STANDARD.encode(plain))
}

#[test]
fn other_units_are_converted_upwards() {
    let line = of_others("5.0", [1_000]);
    let edges = |unit| {
        let log = read(line.as_bytes(), unit);
        (log.intervals[0].bins[0].low, log.intervals[0].bins[0].high)
    };
    let nanos = Duration::from_nanos;
    assert_eq!(edges(Unit::Nanoseconds), (nanos(1_000), nanos(1_000)));
    assert_eq!(edges(Unit::Microseconds), (nanos(1_000_000), nanos(1_000_999)));
    assert_eq!(edges(Unit::Milliseconds), (nanos(1_000_000_000), nanos(1_000_999_999)));
}

#[test]
fn times_are_since_the_epoch_or_since_what_the_file_says() {
    let start = |text: String| read(text.as_bytes(), Unit::Nanoseconds).intervals[0].start.unix_ms();
    assert_eq!(start(of_others("1795000000.5", [7])), 1_795_000_000_500);
    let headed = |head: &str, at: &str| start(format!("{head}\n{}", of_others(at, [7])));
    assert_eq!(headed("#[StartTime: 1795000000.125 (seconds since epoch), Tue]", "2.5"), 1_795_000_002_625);
    assert_eq!(headed("#[StartTime: 1795000000.125 (seconds since epoch)]", "1795000003.0"), 1_795_000_003_000);
    assert_eq!(headed("#[BaseTime: 1795000000.000 (seconds since epoch)]", "4"), 1_795_000_004_000);
}
