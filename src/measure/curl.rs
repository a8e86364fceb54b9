//! Samples of curl: what `curl -w '%{json}\n'` wrote, one object a request.

use super::samples::{BadSamples, NotALatency, in_seconds};
use crate::engine::suggest::latencies::{Latencies, Sample};
use crate::engine::suggest::sample::Taken;
use crate::engine::suggest::seen::{Failing, Failures, Seen};
use serde::Deserialize;
use std::time::Duration;

/// What curl says about one request. All times are in seconds and count from its start; one that was not reached is 0.
///
/// Source: curl docs/cmdline-opts/write-out.md.
#[derive(Deserialize)]
struct Line {
    /// curl's own status; curl 7.75 and later write it. Without it time-outs cannot be told apart.
    exitcode: u32,
    response_code: Option<u16>,
    url: Option<Box<str>>,
    scheme: Option<Box<str>>,
    num_connects: Option<u32>,
    time_connect: f64,
    time_appconnect: f64,
    time_pretransfer: f64,
    /// From curl 8.10 on.
    #[serde(default)]
    time_posttransfer: f64,
    time_starttransfer: f64,
    time_total: f64,
    #[serde(default)]
    time_redirect: f64,
}

/// The times of a line; `None` where a stage was not reached.
struct Times {
    /// The connection stands, with TLS where that is spoken.
    connected: Option<Duration>,
    /// The request is written.
    sent: Option<Duration>,
    first_byte: Option<Duration>,
    total: Duration,
}

/// Returns what curl measured: connecting, from the last byte sent to the first of the answer, and the whole.
///
/// A time-out of curl's (status 28), and a gateway's 504 or 524, are samples that were given up. Where curl does not say
/// when the request was written (before 8.10) the upload counts as waiting. Requests that followed redirects count as
/// failed: their times are those of several.
///
/// # Errors
/// [`BadSamples`]; nothing is left out that cannot be read.
///
/// Source: latency.md 3.12.
pub fn read(text: &[u8]) -> Result<Seen, BadSamples> {
    let (mut connect, mut read, mut whole) = (Vec::new(), Vec::new(), Vec::new());
    let mut failures = Failures::default();
    let mut lines = serde_json::Deserializer::from_slice(text).into_iter::<Line>();
    let mut from = 0;
    while let Some(line) = lines.next() {
        let taken = line.map_err(|_| NotALatency::NotOfCurl).and_then(|line| taken(&line));
        let taken = taken.map_err(|why| bad(text, from, why))?;
        from = lines.byte_offset();
        connect.extend(taken.connect);
        read.extend(taken.read);
        whole.extend(taken.whole);
        taken.failure.into_iter().for_each(|failing| failures.add(failing));
    }
    if from == 0 {
        return Err(BadSamples::None);
    }
    let latencies = |samples: Vec<Sample>| Latencies::from_samples(samples).map_err(BadSamples::Uncounted);
    let (connect, whole) = (latencies(connect)?, latencies(whole)?);
    Ok(Seen { connect, whole, failures, ..Seen::of_reading(latencies(read)?) })
}

/// Returns that what begins after `from` is no sample.
fn bad(text: &[u8], from: usize, why: NotALatency) -> BadSamples {
    let blanks = text[from..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    let start = from + blanks;
    let line = text[..start].iter().filter(|byte| **byte == b'\n').count() + 1;
    let words = text[start..].split(|byte| *byte == b'\n').next().unwrap_or_default();
    BadSamples::line(line, String::from_utf8_lossy(words).trim_end(), why)
}

fn taken(line: &Line) -> Result<Taken, NotALatency> {
    let times = times(line)?;
    let is_new = line.num_connects.is_none_or(|connects| connects > 0);
    let connect = times.connected.filter(|_| is_new).map(Sample::Event);
    let waited = |until: Duration| times.sent.map(|sent| until.saturating_sub(sent));
    let failed = |failing| Taken { connect, failure: Some(failing), ..Taken::default() };
    if line.time_redirect > 0.0 {
        return Ok(Taken { failure: Some(Failing::Unexpected), ..Taken::default() });
    }
    if line.exitcode == 28 {
        return Ok(given_up(&times, connect));
    }
    Ok(match (line.exitcode, line.response_code.unwrap_or(0), times.first_byte) {
        (0 | 22, 504 | 524, Some(first)) => {
            let (read, whole) = (waited(first).map(Sample::Censored), Some(Sample::Censored(times.total)));
            Taken { connect, read, whole, ..Taken::default() }
        }
        (0, 200..400, Some(first)) => {
            let (read, whole) = (waited(first).map(Sample::Event), Some(Sample::Event(times.total)));
            Taken { connect, read, whole, ..Taken::default() }
        }
        (0 | 22, 429, _) => failed(Failing::Limited),
        (0 | 22, 400..500, _) => failed(Failing::ClientError),
        (0 | 22, 500.., _) => failed(Failing::ServerError),
        (exit, ..) => failed(failing(exit)),
    })
}

/// Returns a sample that curl's own limit ended.
fn given_up(times: &Times, connect: Option<Sample>) -> Taken {
    let whole = Some(Sample::Censored(times.total));
    match (times.connected, times.sent, times.first_byte) {
        (None, ..) => Taken { connect: whole, whole, ..Taken::default() },
        (Some(_), None, _) => Taken { connect, whole, ..Taken::default() },
        (Some(_), Some(sent), None) => {
            let read = Some(Sample::Censored(times.total.saturating_sub(sent)));
            Taken { connect, read, whole, ..Taken::default() }
        }
        (Some(_), Some(sent), Some(first)) => {
            Taken { connect, read: Some(Sample::Event(first.saturating_sub(sent))), whole, ..Taken::default() }
        }
    }
}

fn times(line: &Line) -> Result<Times, NotALatency> {
    let reached = |seconds: f64| Ok(Some(in_seconds(seconds, 1.0)?).filter(|time| !time.is_zero()));
    // Before a connection stands curl states no scheme.
    let scheme = line.scheme.as_deref().or(line.url.as_deref().and_then(|url| url.get(..5))).unwrap_or_default();
    let is_secure = scheme.eq_ignore_ascii_case("https");
    let (tcp, tls) = (reached(line.time_connect)?, reached(line.time_appconnect)?);
    let (ready, written) = (reached(line.time_pretransfer)?, reached(line.time_posttransfer)?);
    Ok(Times {
        connected: if is_secure { tls } else { tls.or(tcp) },
        sent: written.or(ready),
        first_byte: reached(line.time_starttransfer)?,
        total: in_seconds(line.time_total, 1.0)?,
    })
}

/// Returns how a request failed that curl left with `exit`.
///
/// Source: the exit codes of curl's manual page.
fn failing(exit: u32) -> Failing {
    match exit {
        5 | 6 => Failing::Name,
        7 => Failing::Refused,
        35 | 53 | 54 | 58 | 59 | 60 | 64 | 66 | 77 | 80 | 82 | 83 | 90 | 91 | 98 => Failing::Tls,
        16 | 18 | 52 | 55 | 56 | 92 | 95 => Failing::Reset,
        _ => Failing::Unexpected,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line as curl 8.10 writes it, with the fields of `more` in place of those of an answered request.
    fn line(more: &[(&str, &str)]) -> String {
        let mut fields = vec![
            ("exitcode", "0"),
            ("response_code", "200"),
            ("scheme", "\"https\""),
            ("num_connects", "1"),
            ("time_namelookup", "0.001"),
            ("time_connect", "0.010"),
            ("time_appconnect", "0.030"),
            ("time_pretransfer", "0.031"),
            ("time_posttransfer", "0.040"),
            ("time_starttransfer", "0.140"),
            ("time_total", "0.200"),
            ("time_redirect", "0.000000"),
            ("errormsg", "null"),
        ];
        for (name, value) in more {
            fields.retain(|(known, _)| known != name);
            fields.push((name, value));
        }
        let fields: Vec<String> = fields.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
        format!("{{{}}}\n", fields.join(","))
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn one(more: &[(&str, &str)]) -> Taken {
        let line: Line = serde_json::from_str(&line(more)).expect("a line");
        taken(&line).expect("a sample")
    }

    #[test]
    fn stages_are_the_differences_of_cumulative_times() {
        let event = |after| Some(Sample::Event(after));
        let found = one(&[]);
        assert_eq!((found.connect, found.read, found.whole), (event(ms(30)), event(ms(100)), event(ms(200))));
        let found = one(&[("time_posttransfer", "0")]);
        assert_eq!(found.read, event(ms(109)), "before curl 8.10 the upload counts as waiting");
        let found = one(&[("scheme", "\"http\""), ("time_appconnect", "0.000000")]);
        assert_eq!(found.connect, event(ms(10)));
        assert_eq!(one(&[("num_connects", "0")]).connect, None, "a connection that was there says nothing");
    }

    #[test]
    fn a_time_out_is_given_up_in_the_stage_that_it_ended() {
        let (event, censored) = (|after| Some(Sample::Event(after)), |after| Some(Sample::Censored(after)));
        let nothing = [("exitcode", "28"), ("response_code", "0"), ("time_starttransfer", "0")];
        let found = one(&nothing);
        assert_eq!((found.connect, found.read, found.whole), (event(ms(30)), censored(ms(160)), censored(ms(200))));
        let found = one(&[&nothing[..], &[("time_appconnect", "0"), ("time_pretransfer", "0")]].concat());
        assert_eq!((found.connect, found.read, found.whole), (censored(ms(200)), None, censored(ms(200))));
        let found = one(&[("exitcode", "28")]);
        assert_eq!((found.read, found.whole), (event(ms(100)), censored(ms(200))), "the body stalled");
        let found = one(&[("response_code", "504")]);
        assert_eq!((found.read, found.failure), (censored(ms(100)), None));
    }

    #[test]
    fn what_failed_is_counted_and_is_no_fast_answer() {
        for (more, failing) in [
            (&[("exitcode", "6"), ("response_code", "0")], Failing::Name),
            (&[("exitcode", "7"), ("response_code", "0")], Failing::Refused),
            (&[("exitcode", "60"), ("response_code", "0")], Failing::Tls),
            (&[("exitcode", "52"), ("response_code", "0")], Failing::Reset),
            (&[("exitcode", "0"), ("response_code", "429")], Failing::Limited),
            (&[("exitcode", "22"), ("response_code", "404")], Failing::ClientError),
            (&[("exitcode", "0"), ("response_code", "503")], Failing::ServerError),
            (&[("exitcode", "0"), ("time_redirect", "0.1")], Failing::Unexpected),
        ] {
            let found = one(more);
            assert_eq!((found.failure, found.read, found.whole), (Some(failing), None, None), "{more:?}");
        }
    }

    #[test]
    fn objects_follow_each_other_with_and_without_line_breaks() {
        let text = format!("{}{}\r\n\n{}", line(&[]).trim_end(), line(&[]), line(&[("exitcode", "7")]));
        let found = read(text.as_bytes()).expect("samples");
        assert_eq!((found.read.events(), found.failures.refused, found.tried()), (2, 1, 3));
    }

    #[test]
    fn what_curl_did_not_write_is_named_with_its_line() {
        let why = NotALatency::NotOfCurl;
        for (text, line_number, quoted, why) in [
            (format!("{}200 OK\n", line(&[])), 2, "200 OK", why),
            (format!("{}\n{{\"id\":1}}\n", line(&[])), 3, "{\"id\":1}", why),
            ("0.123\n".into(), 1, "0.123", why),
            (line(&[("time_total", "NaN")]), 1, "{\"exitcode\":0,\"response_code\":200,\"sch", why),
            (line(&[("time_total", "-1")]), 1, "{\"exitcode\":0,\"response_code\":200,\"sch", NotALatency::Negative),
        ] {
            let Err(BadSamples::Line { line, text: found, why: reason }) = read(text.as_bytes()) else {
                panic!("{text}")
            };
            assert_eq!((line, reason), (line_number, why), "{text}");
            assert!(found.starts_with(quoted), "{found}");
        }
        assert_eq!(read(b" \n"), Err(BadSamples::None));
    }
}
