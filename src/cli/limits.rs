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
    let max_attempts = match setting("max-attempts", args.max_attempts.as_deref())? {
        None => None,
        Some(given) => match given.text.parse::<u32>() {
            Ok(0) => return Err(given.refuse("the first attempt is counted: at least 1")),
            Ok(count) => Some(count),
            Err(_) => return Err(given.refuse("not a number of attempts, such as 3")),
        },
    };
    Ok(Asked {
        deadline: deadline("deadline", args.deadline.as_deref(), now)?,
        valid_for: duration("valid-for", args.valid_for.as_deref())?,
        max_attempts,
        stages: TimeoutFlags {
            connect: duration("connect-timeout", args.connect_timeout.as_deref())?,
            write: duration("write-timeout", args.write_timeout.as_deref())?,
            read: duration("read-timeout", args.read_timeout.as_deref())?,
            attempt: duration("attempt-timeout", args.attempt_timeout.as_deref())?,
        },
    })
}

/// Reads the duration of `--flag` or its variable.
///
/// # Errors
/// It is none, with an example.
pub fn duration(flag: &str, given: Option<&str>) -> Result<Option<Duration>, Failure> {
    match setting(flag, given)? {
        None => Ok(None),
        Some(given) => parse_duration(&given.text).map(Some).map_err(|why| given.refuse(why)),
    }
}

/// Reads the end of something from `--flag` or its variable: a duration, or a time after an `@`.
///
/// # Errors
/// It is neither, with an example, or that time is over.
pub fn deadline(flag: &str, given: Option<&str>, now: Timestamp) -> Result<Option<Duration>, Failure> {
    let Some(given) = setting(flag, given)? else { return Ok(None) };
    let left = match given.text.strip_prefix('@') {
        Some(time) => until(&given, time, now, TimeZone::system)?,
        None => parse_duration(&given.text).map_err(|why| given.refuse(why))?,
    };
    Ok(Some(left))
}

/// Reads a time that is over, from `--flag`: a duration before `now`, RFC 3339, or a local day.
///
/// # Errors
/// It is none of these.
pub fn since(flag: &str, text: &str, now: Timestamp) -> Result<Timestamp, Failure> {
    if let Ok(ago) = parse_duration(text) {
        return Ok(now.before(ago));
    }
    let day = || {
        let day = text.parse::<jiff::civil::Date>().ok()?.to_datetime(Time::midnight());
        day.to_zoned_datetime(TimeZone::system()).ok().map(|day| day.timestamp())
    };
    let stamp = text.parse::<jiff::Timestamp>().ok().or_else(day);
    stamp.map(|stamp| Timestamp::from_unix_ms(stamp.as_millisecond())).ok_or_else(|| {
        let given = Given { name: format!("--{flag}"), text: text.into() };
        given.refuse("no time").hint("write 2h, 2026-11-30 or 2026-11-30T09:00:00Z")
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
    fn a_time_that_is_over_is_a_duration_or_a_moment() {
        let now: Timestamp = "2026-11-30T10:00:00.000Z".parse().expect("a time");
        for (text, expected) in
            [("2h", "2026-11-30T08:00:00.000Z"), ("2026-11-30T09:30:00Z", "2026-11-30T09:30:00.000Z")]
        {
            assert_eq!(since("since", text, now).expect("a time").to_string(), expected, "{text}");
        }
        assert!(since("since", "2026-11-29", now).expect("a day") < now);
        let failure = since("since", "yesterday", now).expect_err("is refused");
        assert_eq!(failure.error.to_string(), "--since yesterday: no time");
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
