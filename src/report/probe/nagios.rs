//! One line for monitoring systems that run plugins.

use super::Probed;
use super::stages;
use abide::engine::diagnose::judgement::Standing;
use abide::engine::diagnose::past::Usual;
use abide::engine::exchange::Stage;
use std::time::Duration;

/// Returns the line and the exit status: 0 usable, 1 degraded, 2 not usable, 3 could not tell.
///
/// Behind the bar are the times of the stages in seconds with the usual 99th percentile as the warning limit, and the
/// days that the certificate is still valid. `U` stands for a value that is not known.
///
/// Source: latency.md 6.6; the guidelines of the Monitoring Plugins for performance data.
pub fn nagios(probed: &Probed<'_>) -> (String, u8) {
    let (word, status) = match probed.found.standing {
        Standing::Usable => ("OK", 0),
        Standing::Degraded => ("WARNING", 1),
        Standing::Unusable => ("CRITICAL", 2),
        Standing::Unknown => ("UNKNOWN", 3),
    };
    let (side, code) = (probed.found.side_name(), probed.found.code);
    let text = format!("ABIDE {word} - {side}: {} ({code})", code.words());
    let line = format!("{text} | {}", measures(probed).join(" "));
    // A bar or a line break inside would end the text.
    (line.replace('\n', " "), status)
}

fn measures(probed: &Probed<'_>) -> Vec<String> {
    let past = &probed.seen.past;
    let rows = stages::rows(probed.seen);
    let took = |stage: Stage| rows.iter().find(|row| row.stage == stage && !row.is_open).and_then(|row| row.took);
    let p99 = |usual: Option<Usual>| usual.map(|usual| usual.p99);
    let all = [
        ("resolve", took(Stage::Resolve), p99(past.resolve)),
        ("connect", took(Stage::Connect), p99(past.connect)),
        ("tls", took(Stage::Tls), p99(past.tls)),
        ("ttfb", took(Stage::FirstByte), past.first_byte_p99()),
    ];
    let mut measures: Vec<String> = all.into_iter().map(|(name, took, warning)| measure(name, took, warning)).collect();
    let left = probed.seen.certificate().zip(probed.seen.at).and_then(|(certificate, at)| certificate.left(at));
    measures.extend(left.map(|left| format!("cert_days={};14:", left.as_secs() / 86_400)));
    measures
}

fn measure(name: &str, took: Option<Duration>, warning: Option<Duration>) -> String {
    let took = took.map_or("U".into(), |took| format!("{:.3}s", took.as_secs_f64()));
    match warning {
        Some(warning) => format!("{name}={took};{:.3}", warning.as_secs_f64()),
        None => format!("{name}={took}"),
    }
}
