use super::*;
use proptest::prelude::*;

#[test]
fn durations_are_read_to_the_nanosecond() {
    let cases = [
        ("250ms", Duration::from_millis(250)),
        ("2s", Duration::from_secs(2)),
        ("007s", Duration::from_secs(7)),
        ("1.5s", Duration::from_millis(1_500)),
        ("1.50000000000000s", Duration::from_millis(1_500)),
        ("0.1m", Duration::from_secs(6)),
        ("0.000001ms", Duration::from_nanos(1)),
        ("1m30s", Duration::from_secs(90)),
        ("1m0s", Duration::from_secs(60)),
        ("1m30.5s", Duration::from_millis(90_500)),
        ("90m", Duration::from_secs(5_400)),
        ("1h", Duration::from_secs(3_600)),
        ("14d", Duration::from_secs(14 * 86_400)),
        ("1d2h3m4s5ms", Duration::from_millis(((26 * 60 + 3) * 60 + 4) * 1_000 + 5)),
    ];
    for (text, expected) in cases {
        assert_eq!(parse_duration(text), Ok(expected), "{text}");
    }
}

#[test]
fn durations_beyond_any_clock_read_as_the_longest_one() {
    let thirty_digits = "9".repeat(30);
    let fifty_digits = "9".repeat(50);
    for number in ["999999999999", "18446744073709551616", &thirty_digits, &fifty_digits] {
        for unit in ["s", "m", "h", "d"] {
            let text = format!("{number}{unit}");
            assert_eq!(parse_duration(&text), Ok(LONGEST), "{text}");
        }
    }
    assert_eq!(parse_duration(&format!("{fifty_digits}d{fifty_digits}h")), Ok(LONGEST));
}

#[test]
fn what_is_no_duration_is_refused_with_an_example_that_works() {
    let cases = [
        ("", "the duration is empty: write for example 30s"),
        ("600", "600 has no unit: write 600ms or 600s"),
        ("0", "0 is no time at all: write for example 250ms"),
        ("1m30", "1m30 ends without a unit: write 1m30s"),
        ("1.5", "1.5 ends without a unit: write 1.5s"),
        ("1ms5", "1ms5 ends without a unit: write for example 30s"),
        ("0s", "0s is no time at all: write for example 250ms"),
        ("0d0.000ms", "0d0.000ms is no time at all: write for example 250ms"),
        ("-5s", "-5s is negative: write 5s"),
        ("-5", "-5 is negative: write 5s"),
        ("-0s", "-0s is negative: write for example 30s"),
        ("--5s", "--5s is negative: write for example 30s"),
        ("5 s", "5 s has blanks in it: write 5s"),
        (" 5s", " 5s has blanks in it: write 5s"),
        ("5\n", "5\\n has blanks in it: write 5s"),
        ("5\u{a0}s", "5\\u{a0}s has blanks in it: write 5s"),
        ("2min", "min is no unit of time: write 2ms, 2s, 2m, 2h or 2d"),
        ("2S", "S is no unit of time: write 2ms, 2s, 2m, 2h or 2d"),
        ("1e9s", "e is no unit of time: write 1ms, 1s, 1m, 1h or 1d"),
        ("2с", "с is no unit of time: write 2ms, 2s, 2m, 2h or 2d"),
        ("30s1m", "30s1m mixes its units: write the larger first, each once, decimals last, for example 1m30.5s"),
        ("1s1s", "1s1s mixes its units: write the larger first, each once, decimals last, for example 1m30.5s"),
        ("1.5h30m", "1.5h30m mixes its units: write the larger first, each once, decimals last, for example 1m30.5s"),
        ("+5s", "+5s is no duration: write for example 250ms, 30s or 1m30s"),
        (".5s", ".5s is no duration: write for example 250ms, 30s or 1m30s"),
        ("5.s", "5.s is no duration: write for example 250ms, 30s or 1m30s"),
        ("1.2.3s", "1.2.3s is no duration: write for example 250ms, 30s or 1m30s"),
        ("0.0000001ms", "0.0000001ms is no duration: write for example 250ms, 30s or 1m30s"),
        ("soon", "soon is no duration: write for example 250ms, 30s or 1m30s"),
        ("²s", "²s is no duration: write for example 250ms, 30s or 1m30s"),
        ("\u{1b}[2Js", "\\u{1b}[2Js is no duration: write for example 250ms, 30s or 1m30s"),
    ];
    for (text, expected) in cases {
        assert_eq!(parse_duration(text).expect_err(text).to_string(), expected, "{text}");
    }
}

#[test]
fn a_long_text_is_not_quoted_in_full() {
    let message = parse_duration(&"x".repeat(10_000)).expect_err("no duration").to_string();
    assert!(message.len() < 120, "{message}");
    assert!(message.starts_with(&format!("{}… is no duration", "x".repeat(40))), "{message}");
}

#[test]
fn durations_are_shown_exactly_and_short() {
    let cases = [
        (Duration::ZERO, "0s"),
        (Duration::from_nanos(1), "0.000001ms"),
        (Duration::from_micros(1_500), "1.5ms"),
        (Duration::from_millis(250), "250ms"),
        (Duration::from_millis(1_500), "1.5s"),
        (Duration::from_secs(150), "2m30s"),
        (Duration::from_millis(60_010), "1m0.01s"),
        (Duration::from_secs(3_600), "1h"),
        (Duration::from_secs(3_601), "1h1s"),
        (Duration::from_secs(14 * 86_400), "14d"),
        (LONGEST, "36500d"),
    ];
    for (duration, expected) in cases {
        assert_eq!(show_duration(duration), expected);
    }
    assert!(!show_duration(Duration::MAX).is_empty());
}

#[test]
fn measured_times_are_rounded_to_what_the_eye_needs() {
    let cases = [
        (Duration::ZERO, "0s"),
        (Duration::from_micros(49), "0s"),
        (Duration::from_micros(412), "0.4ms"),
        (Duration::from_micros(9_949), "9.9ms"),
        (Duration::from_micros(9_950), "10ms"),
        (Duration::from_micros(41_499), "41ms"),
        (Duration::from_micros(999_499), "999ms"),
        (Duration::from_micros(999_500), "1s"),
        (Duration::from_millis(1_432), "1.4s"),
        (Duration::from_millis(59_949), "59.9s"),
        (Duration::from_millis(59_950), "1m"),
        (Duration::from_millis(150_400), "2m30s"),
        (Duration::from_millis(3_599_499), "59m59s"),
        (Duration::from_millis(3_599_500), "1h"),
        (Duration::from_secs(11_115), "3h5m"),
        (Duration::from_secs(86_369), "23h59m"),
        (Duration::from_secs(86_370), "1d"),
        (Duration::from_secs(352_900), "4d2h"),
    ];
    for (duration, expected) in cases {
        assert_eq!(show_rounded(duration), expected, "{duration:?}");
    }
    assert!(!show_rounded(Duration::MAX).is_empty());
}

#[test]
fn sizes_are_read_in_bytes() {
    let cases =
        [("0B", 0), ("512B", 512), ("64KiB", 65_536), ("16MiB", 16 << 20), ("2GiB", 2 << 30), ("1TiB", 1 << 40)];
    for (text, expected) in cases {
        assert_eq!(parse_size(text), Ok(expected), "{text}");
    }
}

#[test]
fn what_is_no_size_is_refused_with_an_example() {
    let cases = [
        ("", "an empty text is no size: write for example 64KiB"),
        ("64", "64 has no unit: write 64B or 64KiB"),
        ("64KB", "KB is no unit of size: write 64B, 64KiB, 64MiB or 64GiB"),
        ("64kib", "kib is no unit of size: write 64B, 64KiB, 64MiB or 64GiB"),
        ("1.5MiB", "1.5MiB is no size: write for example 64KiB"),
        ("-1B", "-1B is no size: write for example 64KiB"),
        ("+1B", "+1B is no size: write for example 64KiB"),
        ("64 KiB", "64 KiB is no size: write for example 64KiB"),
        ("16777216TiB", "16777216TiB is too large: write for example 16MiB"),
        ("99999999999999999999B", "99999999999999999999B is too large: write for example 16MiB"),
    ];
    for (text, expected) in cases {
        assert_eq!(parse_size(text).expect_err(text).to_string(), expected, "{text}");
    }
}

#[test]
fn rates_are_read_per_second() {
    for (text, expected) in [("20/s", 20.0), ("0.5/s", 0.5), ("90/m", 1.5), ("36/h", 0.01), ("1000000/s", FASTEST)] {
        assert_eq!(parse_rate(text), Ok(expected), "{text}");
    }
}

#[test]
fn what_is_no_rate_is_refused_with_an_example() {
    let cases = [
        ("20", "20 has no unit: write 20/s or 20/m"),
        ("0/s", "0/s never comes: write for example 0.1/s or 6/m"),
        ("1000001/s", "1000001/s is too fast: at most 1000000/s"),
        ("", "an empty text is no rate: write for example 20/s or 90/m"),
        ("/s", "/s is no rate: write for example 20/s or 90/m"),
        ("-1/s", "-1/s is no rate: write for example 20/s or 90/m"),
        ("inf/s", "inf/s is no rate: write for example 20/s or 90/m"),
        ("1e3/s", "1e3/s is no rate: write for example 20/s or 90/m"),
        ("20/d", "20/d is no rate: write for example 20/s or 90/m"),
        ("20/ s", "20/ s is no rate: write for example 20/s or 90/m"),
    ];
    for (text, expected) in cases {
        assert_eq!(parse_rate(text).expect_err(text).to_string(), expected, "{text}");
    }
    assert!(parse_rate(&format!("{}/s", "9".repeat(60))).is_err());
}

proptest! {
    #[test]
    fn every_duration_survives_being_shown(seconds in 0..LONGEST.as_secs(), nanos in 0u32..1_000_000_000) {
        let duration = Duration::new(seconds, nanos);
        prop_assume!(!duration.is_zero());
        prop_assert_eq!(parse_duration(&show_duration(duration)), Ok(duration));
    }

    #[test]
    fn short_durations_survive_being_shown(nanos in 1u64..100_000_000_000) {
        let duration = Duration::from_nanos(nanos);
        prop_assert_eq!(parse_duration(&show_duration(duration)), Ok(duration));
    }

    #[test]
    fn a_rounded_time_is_within_a_twentieth(nanos in 1_000_000u64..LONGEST.as_nanos() as u64) {
        let duration = Duration::from_nanos(nanos);
        let shown = parse_duration(&show_rounded(duration)).expect("what is shown can be read");
        prop_assert!(shown.abs_diff(duration) <= duration / 19, "{:?} shown as {:?}", duration, shown);
    }

    #[test]
    fn no_text_panics(text in "[0-9a-zé./ -]{0,12}") {
        let refusals = [
            parse_duration(&text).map(|d| assert!(d <= LONGEST)).map_err(|e| e.to_string()),
            parse_size(&text).map(drop).map_err(|e| e.to_string()),
            parse_rate(&text).map(|r| assert!(r > 0.0 && r <= FASTEST)).map_err(|e| e.to_string()),
        ];
        prop_assert!(refusals.iter().flatten().count() <= 3);
    }
}
