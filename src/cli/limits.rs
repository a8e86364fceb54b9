//! Deadlines and limits, from flags and variables.

use super::args::LimitArgs;
use super::context::{Given, setting};
use super::exit::Failure;
use abide::engine::moment::Timestamp;
use abide::engine::units::parse_duration;
use abide::profile::compose::TimeoutFlags;
use jiff::civil::Time;
use jiff::tz::TimeZone;
use std::time::Duration;

/// What was asked for beyond the profile; `None` where nothing was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// The time for the whole run.
    pub deadline: Option<Duration>,
    /// How long the operation may be sent at all.
    pub valid_for: Option<Duration>,
    /// Attempts of this run.
    pub max_attempts: Option<u32>,
    /// Stages and attempts.
    pub stages: TimeoutFlags,
}

/// Reads the limits at `now`.
///
/// # Errors
/// What is no duration, number or time, with an example.
pub fn read(args: &LimitArgs, now: Timestamp) -> Result<Asked, Failure> {
    let duration = |flag: &str, given: &Option<String>| match setting(flag, given.as_deref())? {
        None => Ok(None),
        Some(given) => parse_duration(&given.text).map(Some).map_err(|why| given.refuse(why)),
    };
    let deadline = match setting("deadline", args.deadline.as_deref())? {
        None => None,
        Some(given) => Some(match given.text.strip_prefix('@') {
            Some(time) => until(&given, time, now, TimeZone::system)?,
            None => parse_duration(&given.text).map_err(|why| given.refuse(why))?,
        }),
    };
    let max_attempts = match setting("max-attempts", args.max_attempts.as_deref())? {
        None => None,
        Some(given) => match given.text.parse::<u32>() {
            Ok(0) => return Err(given.refuse("the first attempt is counted: at least 1")),
            Ok(count) => Some(count),
            Err(_) => return Err(given.refuse("not a number of attempts, such as 3")),
        },
    };
    Ok(Asked {
        deadline,
        valid_for: duration("valid-for", &args.valid_for)?,
        max_attempts,
        stages: TimeoutFlags {
            connect: duration("connect-timeout", &args.connect_timeout)?,
            write: duration("write-timeout", &args.write_timeout)?,
            read: duration("read-timeout", &args.read_timeout)?,
            attempt: duration("attempt-timeout", &args.attempt_timeout)?,
        },
    })
}

/// Returns how long it is until `time`: RFC 3339, or `HH:MM[:SS]` of today in the zone.
fn until(given: &Given, time: &str, now: Timestamp, zone: fn() -> TimeZone) -> Result<Duration, Failure> {
    let stamp = match time.parse::<jiff::Timestamp>() {
        Ok(stamp) => stamp,
        Err(_) => {
            let no_time = || given.refuse("not a time").hint("write @18:30, @18:30:00 or @2026-11-30T18:30:00Z");
            let has_clock_form = time.len() >= 5 && time.bytes().all(|b| b.is_ascii_digit() || b == b':');
            let clock: Time = if has_clock_form { time.parse().map_err(|_| no_time())? } else { return Err(no_time()) };
            let today =
                jiff::Timestamp::from_millisecond(now.unix_ms()).map_err(|_| no_time())?.to_zoned_datetime(zone());
            today
                .date()
                .to_datetime(clock)
                .to_zoned_datetime(today.time_zone().clone())
                .map_err(|_| no_time())?
                .timestamp()
        }
    };
    let at = Timestamp::from_unix_ms(stamp.as_millisecond());
    if at <= now {
        return Err(given
            .refuse("that time is over")
            .hint("for another day write the date too: @2026-12-01T09:00:00Z"));
    }
    Ok(at.since(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(deadline: &str) -> Result<Option<Duration>, String> {
        let now = "2026-11-30T10:00:00.000Z".parse().expect("a time");
        let given = Given { name: "--deadline".into(), text: deadline.into() };
        let zone = || TimeZone::fixed(jiff::tz::offset(2));
        match deadline.strip_prefix('@') {
            Some(time) => until(&given, time, now, zone).map(Some).map_err(|failure| failure.error.to_string()),
            None => parse_duration(deadline).map(Some).map_err(|why| given.refuse(why).error.to_string()),
        }
    }

    #[test]
    fn a_deadline_is_a_duration_or_a_time() {
        for (text, seconds) in [
            ("90s", 90),
            ("@12:01", 60),
            ("@12:00:30", 30),
            ("@2026-11-30T10:00:07Z", 7),
            ("@2026-11-30T12:00:07+02:00", 7),
        ] {
            assert_eq!(asked(text), Ok(Some(Duration::from_secs(seconds))), "{text}");
        }
    }

    #[test]
    fn what_is_no_deadline_is_refused_with_its_name() {
        for (text, expected) in [
            ("5", "--deadline 5: "),
            ("0s", "--deadline 0s: "),
            ("@11:59", "--deadline @11:59: that time is over"),
            ("@noon", "--deadline @noon: not a time"),
            ("@25:00", "--deadline @25:00: not a time"),
            ("@", "--deadline @: not a time"),
            ("@2026-11-30", "--deadline @2026-11-30: not a time"),
        ] {
            let said = asked(text).expect_err("is refused");
            assert!(said.starts_with(expected), "{text}: {said}");
        }
    }
}
