//! Times for people: local and relative.

use abide::engine::moment::Timestamp;
use abide::engine::units::show_rounded;
use jiff::tz::TimeZone;
use std::cell::OnceCell;
use std::time::Duration;

/// The local clock. The time zone is loaded when the first time is shown.
#[derive(Debug)]
pub struct LocalClock {
    load: fn() -> TimeZone,
    zone: OnceCell<TimeZone>,
}

impl LocalClock {
    /// Returns a clock whose zone `load` gives.
    pub fn new(load: fn() -> TimeZone) -> LocalClock {
        LocalClock { load, zone: OnceCell::new() }
    }

    /// Returns `at` as local time, with the day where it is not that of `now`: `10:03:21`, `2026-12-01 10:03:21`.
    ///
    /// A time to come is rounded up to a second: whoever comes back then is not too early.
    pub fn local(&self, at: Timestamp, now: Timestamp) -> String {
        let at = if at > now { at.after(Duration::from_millis(999)) } else { at };
        let zone = self.zone.get_or_init(self.load);
        let zoned = |time: Timestamp| {
            jiff::Timestamp::from_millisecond(time.unix_ms()).map(|stamp| stamp.to_zoned_datetime(zone.clone()))
        };
        match (zoned(at), zoned(now)) {
            (Ok(at), Ok(now)) if at.date() == now.date() => at.strftime("%H:%M:%S").to_string(),
            (Ok(at), _) => at.strftime("%Y-%m-%d %H:%M:%S").to_string(),
            // Beyond the years that can be converted: as it is written.
            (Err(_), _) => at.to_string(),
        }
    }

    /// Returns `at` as local time and how far it is from `now`: `10:03:21 (in 5s)`.
    pub fn both(&self, at: Timestamp, now: Timestamp) -> String {
        format!("{} ({})", self.local(at, now), relative(at, now))
    }
}

/// Returns how far `at` is from `now`, in whole seconds from ten seconds on: `in 2m30s`, `3h5m ago`, `now`.
pub fn relative(at: Timestamp, now: Timestamp) -> String {
    let ahead = at.since(now);
    let behind = now.since(at);
    if ahead.max(behind) < Duration::from_secs(1) {
        return "now".into();
    }
    // Rounded up, as the time itself is.
    if ahead > Duration::ZERO {
        format!("in {}", show_rounded(Duration::from_secs(ahead.as_millis().div_ceil(1000) as u64)))
    } else {
        format!("{} ago", show_rounded(Duration::from_secs(behind.as_secs())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().expect("a time")
    }

    #[test]
    fn times_are_local_and_relative() {
        let clock = LocalClock::new(|| TimeZone::fixed(jiff::tz::offset(2)));
        let now = at("2026-11-30T10:00:00.000Z");
        let cases = [
            ("2026-11-30T10:00:05.000Z", "12:00:05 (in 5s)"),
            ("2026-11-30T10:00:04.001Z", "12:00:05 (in 5s)"),
            ("2026-11-30T09:57:00.000Z", "11:57:00 (3m ago)"),
            ("2026-12-01T10:00:00.000Z", "2026-12-01 12:00:00 (in 1d)"),
            ("2026-11-30T22:30:00.000Z", "2026-12-01 00:30:00 (in 12h30m)"),
            ("2026-11-30T10:00:00.500Z", "12:00:01 (now)"),
        ];
        for (time, expected) in cases {
            assert_eq!(clock.both(at(time), now), expected);
        }
    }

    #[test]
    fn the_last_time_that_can_be_written_is_shown() {
        let clock = LocalClock::new(|| TimeZone::UTC);
        assert!(clock.local(Timestamp::LAST, Timestamp::default()).starts_with("9999-12-31"));
    }
}
