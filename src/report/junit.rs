//! A batch as a JUnit report: what is in doubt is an error, what did not happen a failure, what is not finished skipped.

use super::human::happened;
use super::known::State;
use super::replay::Member;
use abide::engine::gateway::is_deceptive;
use abide::engine::moment::Timestamp;
use abide::engine::verdict::Verdict;
use std::fmt::Write;
use std::time::Duration;

/// How a report shows an operation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    Passed,
    Failure,
    Error,
    Skipped,
}

fn shown(state: &State) -> Shown {
    match state.verdict() {
        Some(Verdict::Confirmed) => Shown::Passed,
        Some(Verdict::Rejected | Verdict::NotDone) => Shown::Failure,
        Some(Verdict::InDoubt) => Shown::Error,
        Some(Verdict::Accepted) | None => Shown::Skipped,
    }
}

/// Returns the report of a batch that began at `began` and took `took`.
pub fn junit(members: &[Member<'_>], began: Timestamp, took: Duration) -> String {
    let count = |wanted| members.iter().filter(|member| shown(&member.known.state) == wanted).count();
    let totals = format!(
        "tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{:.3}\"",
        members.len(),
        count(Shown::Failure),
        count(Shown::Error),
        count(Shown::Skipped),
        took.as_secs_f64()
    );
    let mut xml = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {totals}>\n\
         \x20 <testsuite name=\"abide replay\" timestamp=\"{began}\" {totals}>\n"
    );
    for member in members {
        xml += &case(member);
    }
    xml + "  </testsuite>\n</testsuites>\n"
}

fn case(member: &Member<'_>) -> String {
    let known = &member.known;
    let mut xml = format!(
        "    <testcase classname=\"{}\" name=\"{}\" time=\"{:.3}\">\n      <properties>\n",
        escaped(known.partner.as_str()),
        escaped(known.key.as_str()),
        member.took.unwrap_or_default().as_secs_f64()
    );
    let retry_at = known.settled().and_then(|settled| settled.retry_at).map(|at| at.to_string());
    let properties = [
        ("verdict", Some(known.state.name().to_owned())),
        ("attempts", Some(known.attempts().to_string())),
        ("run_here", Some(member.left.is_none().to_string())),
        ("retry_at", retry_at),
    ];
    for (name, value) in properties {
        if let Some(value) = value {
            let _ = writeln!(xml, "        <property name=\"{name}\" value=\"{}\"/>", escaped(&value));
        }
    }
    xml += "      </properties>\n";
    let message = escaped(&member.left.map_or_else(|| member.why(), |left| format!("not sent: {left}")));
    let words = escaped(&member.advice.words);
    let name = known.state.name();
    match shown(&known.state) {
        Shown::Passed => {}
        Shown::Skipped => xml += &format!("      <skipped message=\"{name}: {message}\"/>\n"),
        Shown::Failure => {
            xml += &format!("      <failure type=\"{name}\" message=\"{message}\">{words}</failure>\n");
        }
        Shown::Error => xml += &format!("      <error type=\"{name}\" message=\"{message}\">{words}</error>\n"),
    }
    let attempts: Vec<String> =
        known.finished().map(|finished| format!("attempt {}: {}", finished.a, happened(finished))).collect();
    if !attempts.is_empty() {
        xml += &format!("      <system-out>{}</system-out>\n", escaped(&attempts.join("\n")));
    }
    xml + "    </testcase>\n"
}

/// Returns a text as it may stand in an attribute or an element.
///
/// HTML takes it as well.
///
/// Source: XML 1.0, section 2.2: control characters other than tab and line ends, U+FFFE and U+FFFF cannot be written
/// at all.
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\t' | '\n' => escaped.push(c),
            '\u{fffe}' | '\u{ffff}' => escaped.push('?'),
            c if is_deceptive(c) => escaped.push('?'),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_text_can_end_an_element_or_an_attribute() {
        assert_eq!(
            escaped("<a b=\"1\">&\u{1b}[2J\u{0}\u{202e}\u{ffff}é\n"),
            "&lt;a b=&quot;1&quot;&gt;&amp;?[2J???é\n"
        );
    }

    #[test]
    fn doubt_is_an_error_and_never_a_failure() {
        let cases = [
            (State::Settled(Verdict::InDoubt), Shown::Error),
            (State::Abandoned(Verdict::InDoubt), Shown::Error),
            (State::Settled(Verdict::NotDone), Shown::Failure),
            (State::Settled(Verdict::Rejected), Shown::Failure),
            (State::Settled(Verdict::Accepted), Shown::Skipped),
            (State::Pending, Shown::Skipped),
            (State::Settled(Verdict::Confirmed), Shown::Passed),
        ];
        for (state, expected) in cases {
            assert!(shown(&state) == expected, "{state:?}");
        }
    }
}
