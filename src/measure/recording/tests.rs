//! What is written is the same evidence when it is read back, and what others wrote is told apart.

use super::*;
use crate::engine::suggest::latencies::Sample;
use crate::engine::suggest::seen::Failing;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2Serializer};

const START: Timestamp = Timestamp::from_unix_ms(1_795_000_000_125);

fn after(seconds: u64) -> Timestamp {
    START.after(Duration::from_secs(seconds))
}

/// Samples of three minutes: answers, a time-out in each stage, one called off, a failure.
fn samples() -> Vec<(Timestamp, Taken)> {
    let event = |micros: u64| Some(Sample::Event(Duration::from_micros(micros)));
    let censored = |ms: u64| Some(Sample::Censored(Duration::from_millis(ms)));
    let answer = |at, micros: u64| {
        let (connect, read, whole) = (event(micros / 10), event(micros), event(micros * 2));
        (after(at), Taken { connect, read, whole, ..Taken::default() })
    };
    vec![
        answer(0, 20_123),
        answer(61, 31_007),
        (after(63), Taken { whole: censored(20), called_off: true, ..Taken::default() }),
        (after(1), Taken { connect: event(900), read: censored(5_000), whole: censored(5_100), ..Taken::default() }),
        (after(62), Taken { connect: censored(5_000), whole: censored(5_000), ..Taken::default() }),
        (after(130), Taken { failure: Some(Failing::ServerError), ..Taken::default() }),
        answer(125, 20_129),
    ]
}

fn tally(samples: &[(Timestamp, Taken)]) -> Tally {
    let mut tally = Tally::default();
    samples.iter().for_each(|(at, taken)| tally.add(taken, *at));
    tally
}

fn written(samples: &[(Timestamp, Taken)], missed: u64) -> Vec<u8> {
    let mut out = Vec::new();
    hlog::write_header(&mut out, START).expect("memory takes it");
    let mut slice = Slice::default();
    samples.iter().for_each(|(at, taken)| slice.add(taken, *at));
    slice.miss(missed);
    slice.write(&mut out).expect("memory takes it");
    assert!(slice.is_empty());
    out
}

#[test]
fn what_is_written_is_the_same_evidence_when_it_is_read() {
    let text = written(&samples(), 2);
    let found = read(&text, None).expect("a recording");
    let expected = Tally { missed: 2, ..tally(&samples()) };
    let seen = expected.seen(Pacing::Open).expect("few samples");
    let by_hour = |seen: &Seen| seen.hours.iter().map(|(hour, seen)| (hour, seen.cells().to_vec())).collect::<Vec<_>>();
    assert_eq!((by_hour(&found.seen), found.bad), (by_hour(&seen), None));
    assert_eq!(found.seen, Seen { lag: None, hours: found.seen.hours.clone(), ..seen });
    assert_eq!(found.seen.read.slowest(), Some(Duration::from_micros(31_007)), "to the microsecond");
    assert_eq!(found.when, expected.first.zip(expected.last));
    let restored = Tally::restored(&hlog::read(&text, Unit::Nanoseconds)).expect("one kind");
    assert_eq!(restored, Tally { hours: restored.hours.clone(), ..expected });
}

#[test]
fn several_sessions_add_up_and_a_cut_end_costs_its_lines_only() {
    let (first, second) = (samples()[..3].to_vec(), samples()[3..].to_vec());
    let header_less = |text: Vec<u8>| {
        let text = String::from_utf8(text).expect("text");
        text.lines().skip(4).map(|line| format!("{line}\n")).collect::<String>().into_bytes()
    };
    let both = [written(&first, 0), header_less(written(&second, 0))].concat();
    let in_one = read(&written(&samples(), 0), None).expect("a recording");
    assert_eq!(read(&both, None).expect("a recording").seen, in_one.seen);
    let of = |text: &[u8]| Tally::restored(&hlog::read(text, Unit::Nanoseconds)).expect("one kind");
    let mut joined = of(&written(&second, 0));
    joined.join(&of(&written(&first, 0)));
    assert_eq!(joined.seen(Pacing::Open).map(|seen| Seen { lag: None, ..seen }), Ok(in_one.seen));
    let cut = &both[..both.len() - 20];
    let found = read(cut, None).expect("the rest");
    assert_eq!((found.seen.read.samples(), found.bad.map(|(count, _)| count)), (4, Some(1)));
}

#[test]
fn extremes_that_cannot_be_are_not_believed() {
    let text = String::from_utf8(written(&samples()[..1], 0)).expect("text");
    let claimed = text.replace("read=20123000..20123000", "read=5..20123000 refused=x what=3");
    assert_ne!(text, claimed);
    let found = read(claimed.as_bytes(), None).expect("a recording").seen;
    let fastest = found.read.fastest().expect("an answer");
    assert!(fastest > Duration::from_micros(20_100) && fastest <= Duration::from_micros(20_123), "{fastest:?}");
    assert_eq!(found.failures.refused, 0);
}

/// Returns a line of another tool, which counts in microseconds.
fn of_others(tag: &str, start: &str, values: &[u64]) -> String {
    let mut histogram = Histogram::<u64>::new_with_bounds(1, 3_600_000_000, 3).expect("a histogram");
    values.iter().for_each(|value| histogram.record(*value).expect("within bounds"));
    let mut plain = Vec::new();
    V2Serializer::new().serialize(&histogram, &mut plain).expect("memory takes it");
    format!("{tag}{start},300.0,0.2,{}\n", STANDARD.encode(plain))
}

#[test]
fn lines_of_another_tool_need_a_unit_and_count_as_one_minute_each() {
    let text = [of_others("", "1795000000.5", &[1_000, 2_000]), of_others("", "1795000300.5", &[3_000])].concat();
    assert_eq!(read(text.as_bytes(), None).expect_err("no unit"), BadSamples::NoUnit);
    let found = read(text.as_bytes(), Some(Unit::Microseconds)).expect("a recording");
    assert_eq!((found.seen.read.events(), found.seen.minutes.count(3)), (3, 2));
    assert_eq!(found.seen.read.slowest().map(|slowest| slowest.as_millis()), Some(3));
    assert_eq!(found.when.map(|(_, last)| last.unix_ms()), Some(1_795_000_600_500));
    let undated = read(of_others("", "5.0", &[7]).as_bytes(), Some(Unit::Microseconds)).expect("a recording");
    assert_eq!(undated.when, None);
}

#[test]
fn what_is_no_recording_is_refused_with_its_reason() {
    let own = written(&samples(), 0);
    let mixed = [own.clone(), of_others("", "1795000000.5", &[1_001]).into_bytes()].concat();
    let tagged = [of_others("Tag=READ,", "1.0", &[7]), of_others("Tag=UPDATE,", "1.0", &[7])].concat();
    let empty_histogram = of_others("", "1.0", &[]);
    let us = Some(Unit::Microseconds);
    let no_log = BadSamples::NoLog { line: 1, why: hlog::BadLine::Fields };
    for (text, unit, expected) in [
        (&b""[..], None, BadSamples::None),
        (b"# nothing\n", us, BadSamples::None),
        (b"12.5\n13\n", None, no_log),
        (&own, us, BadSamples::OtherUnit),
        (&mixed, None, BadSamples::Uncounted(NotLatencies::Disorder)),
        (tagged.as_bytes(), us, BadSamples::OnlyTagged(vec!["READ".into(), "UPDATE".into()])),
        (empty_histogram.as_bytes(), us, BadSamples::None),
    ] {
        assert_eq!(read(text, unit).expect_err("no recording"), expected, "{}", String::from_utf8_lossy(text));
    }
}
