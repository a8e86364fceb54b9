//! What a calibration found as one page: it needs nothing from elsewhere, runs no script, and says in words what it draws.

use super::super::junit::escaped;
use super::super::paint::Paint;
use super::curve::curve;
use super::overlay::overlay;
use super::{Calibrated, Compared, Planned, hours, text};
use abide::engine::suggest::Suggestion;
use abide::engine::suggest::rounding::show_three_digits;
use abide::engine::suggest::share::Share;
use abide::engine::units::show_duration;
use std::time::Duration;

/// How every page begins: a file that begins otherwise is none of ours.
pub const BEGINNING: &str = "<!doctype html>\n<!-- abide calibrate -->\n";

const STYLE: &str = include_str!("page.css");

/// Returns the page. `made` is when, and by which version.
pub fn page(found: &Calibrated<'_>, plan: &Planned, made: &str) -> String {
    let (subject, head) = (escaped(found.subject), text::head(found, Paint::Plain));
    let mut page = format!(
        "{BEGINNING}<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>{subject}: how long answers take</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <h1>How long answers take: {subject}</h1>\n{}",
        paragraphs(head.strip_prefix(&format!("{}: ", found.subject)).unwrap_or(&head))
    );
    match found.result {
        Ok(suggestion) => limits(&mut page, found, suggestion),
        Err(reasons) => page += &paragraphs(&text::refused(found, reasons, Paint::Plain)),
    }
    if let Some(with) = found.compared {
        compared(&mut page, with);
    }
    if found.seen.read.samples() > 0 {
        section(&mut page, "How sure this is");
        page += &paragraphs(&text::grade(found, &found.evidence()));
        measured(&mut page, found);
        by_hour(&mut page, found);
    }
    page + &format!("<footer>{}</footer>\n</body>\n</html>\n", paragraphs(&format!("{}\n{made}", taken(plan))))
}

fn limits(page: &mut String, found: &Calibrated<'_>, suggestion: &Suggestion) {
    let short = text::in_short(found, suggestion);
    *page += &format!("<p class=\"short\"><strong>In short:</strong> {}</p>\n", escaped(&short));
    for warning in &suggestion.warnings {
        *page += &format!("<p class=\"warn\">Warning: {}</p>\n", escaped(&warning.to_string()));
    }
    section(page, text::limits_title(found));
    *page += &table(&text::limit_heads(found), text::limit_rows(suggestion));
    *page += &paragraphs(&text::remarks(found, suggestion).join("\n"));
    let says = "Bars end at the limit: the upper one is in force, the lower one is suggested. The line below them reaches from \
                the median of what was measured to the slowest.";
    *page += &figure(&overlay(found, suggestion), says);
    section(page, "What the limits would do");
    *page += &table(&text::CONSEQUENCE_HEADS, text::consequence_rows(suggestion));
    *page += &paragraphs(&text::too_late(suggestion));
}

fn compared(page: &mut String, with: &Compared) {
    section(page, &with.title());
    let class = if with.is_fine() { "short" } else { "short warn" };
    *page += &format!("<p class=\"{class}\"><strong>{}</strong></p>\n", escaped(&with.verdict(Paint::Plain)));
    if !with.percentiles.is_empty() {
        let says = "Bars end at the time within which so many answers came: the upper one is before, the lower one is now. A \
                    faint one has no known end.";
        *page += &figure(&with.drawing(), says);
        *page += &table(&["so many", "came within, before", "now"], with.rows());
    }
    *page += &paragraphs(&with.reasons().join("\n"));
}

fn measured(page: &mut String, found: &Calibrated<'_>) {
    section(page, "What was measured");
    let says = "From the last byte sent to the head of the answer, by how rare so slow an answer is. Shaded: where the \
                percentile lies, 95 % sure; to the edge where that end is not known.";
    *page += &figure(&curve(found), says);
    let minutes = found.evidence().minutes;
    let known = |end: Option<Duration>| end.map_or("not known".into(), show_three_digits);
    let row = |share: Share| {
        let name = format!("{} (p{share})", text::so_many(share));
        match found.seen.read.percentile(share, minutes, Share::CONFIDENCE) {
            Ok(point) => {
                vec![name, show_three_digits(point.value), known(point.lower), known(point.higher), known(point.bound)]
            }
            Err(not) => {
                let unknown = known(None);
                let value = format!("> {}", show_three_digits(not.above));
                vec![name, value, unknown.clone(), unknown.clone(), unknown]
            }
        }
    };
    let heads = ["so many", "came within", "which lies from", "to, 95 % sure", "at most, 95 % sure"];
    *page += &table(&heads, found.percentiles().into_iter().map(row).collect());
}

fn by_hour(page: &mut String, found: &Calibrated<'_>) {
    section(page, "By the hour of the day");
    if let Some(why) = hours::unmapped(found) {
        *page += &paragraphs(&why);
        return;
    }
    let unseen = found.evidence().hours_unseen.len();
    let rest = match unseen {
        0 => String::new(),
        1 => " Grey: one hour without a sample, of which nothing is known.".into(),
        _ => format!(" Grey: {unseen} hours without a sample, of which nothing is known."),
    };
    let limit = if found.result.is_ok() { " The line is the new read limit." } else { "" };
    let says = format!("The darker a field, the more of the answers of its hour took so long.{limit}{rest}");
    *page += &figure(&hours::map(found), &says);
    *page += &table(&hours::HEADS, hours::rows(found));
}

/// Says how the samples were taken.
fn taken(plan: &Planned) -> String {
    let duration = |ms: f64| show_duration(Duration::from_secs_f64(ms / 1e3));
    let parts = [
        plan.pacing.map(|pacing| match pacing {
            "open" => "each request left when it was due, whatever had become of the others".to_owned(),
            _ => "each request waited for the one before".to_owned(),
        }),
        plan.samples.map(|samples| format!("at most {samples} requests")),
        plan.executed.as_ref().map(|method| format!("each a {method} that the partner may execute")),
        plan.rate_per_s.map(|rate| format!("{} a second", text::short(rate))),
        plan.duration_ms.map(|ms| format!("for {}", duration(ms))),
        plan.timeout_ms.map(|ms| format!("each given up after {}", duration(ms))),
        plan.seed.map(|seed| format!("seed {seed}")),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    let colon = if parts.is_empty() { "" } else { ": " };
    format!("Samples: {}{colon}{}", plan.source, parts.join(", "))
}

fn section(page: &mut String, title: &str) {
    *page += &format!("<h2>{}</h2>\n", escaped(title));
}

fn figure(svg: &str, says: &str) -> String {
    format!("<figure><div class=\"wide\">{svg}</div><figcaption>{}</figcaption></figure>\n", escaped(says))
}

/// Returns each line as a paragraph.
fn paragraphs(lines: &str) -> String {
    lines.lines().filter(|line| !line.is_empty()).map(|line| format!("<p>{}</p>\n", escaped(line.trim()))).collect()
}

fn table(heads: &[&str], rows: Vec<Vec<String>>) -> String {
    let head: String = heads.iter().map(|head| format!("<th scope=\"col\">{}</th>", escaped(head))).collect();
    let cells = |row: &Vec<String>| row.iter().map(|cell| format!("<td>{}</td>", escaped(cell))).collect::<String>();
    let body: String = rows.iter().map(|row| format!("<tr>{}</tr>\n", cells(row))).collect();
    format!("<div class=\"wide\"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table></div>\n")
}

#[cfg(test)]
mod tests {
    use super::super::{Moved, Planned, document};
    use super::*;
    use abide::engine::moment::Timestamp;
    use abide::engine::suggest::drift::Drift;
    use abide::engine::suggest::evidence::Minutes;
    use abide::engine::suggest::latencies::{Latencies, Sample};
    use abide::engine::suggest::season::Hours;
    use abide::engine::suggest::seen::{Failures, Options, Pacing, Seen};
    use abide::engine::suggest::suggest;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// The answers of an hour: mostly quick, in the morning slower, one in a hundred slow.
    fn hour(hour: u8) -> Latencies {
        let busy = if (8..11).contains(&hour) { 3 } else { 1 };
        let latency = |n: u64| if n % 100 == 7 { 2_000 * busy + n } else { (90 + n * n % 211) * busy };
        Latencies::from_samples((0..420).map(|n| Sample::Event(ms(latency(n))))).expect("few samples")
    }

    /// A week, from `hours` of the day.
    fn seen(hours: std::ops::Range<u8>) -> Seen {
        let hours: Vec<_> = hours.map(|at| (at, hour(at))).collect();
        let merged = |one: Latencies, other: Latencies| one.merged(&other).expect("few samples");
        let read = hours.iter().map(|(_, seen)| seen.clone()).reduce(merged).expect("some hours");
        let mut minutes = Minutes::default();
        for minute in (0..7 * 24 * 60).filter(|minute| hours.iter().any(|(at, _)| i64::from(*at) == minute / 60 % 24)) {
            minutes.add(Timestamp::from_unix_ms(minute * 60_000));
        }
        let connect = Latencies::from_samples((0..900).map(|n| Sample::Event(ms(20 + n % 17)))).expect("few samples");
        let (whole, failures, lag, pacing) = (read.clone(), Failures::default(), None, Pacing::Open);
        Seen {
            read,
            connect,
            whole,
            failures,
            missed: 0,
            called_off: 0,
            minutes,
            hours: Hours::new(hours),
            lag,
            pacing,
        }
    }

    fn drawn(seen: &Seen, subject: &str) -> String {
        with(seen, subject, |found| page(found, &Planned { source: "live".into(), ..Planned::default() }, "Made today"))
    }

    /// Hands over what was found, as it is shown.
    fn with<T>(seen: &Seen, subject: &str, show: impl Fn(&Calibrated<'_>) -> T) -> T {
        with_all(seen, subject, None, show)
    }

    fn with_all<T>(seen: &Seen, subject: &str, compared: Option<&Compared>, show: impl Fn(&Calibrated<'_>) -> T) -> T {
        let options = Options::default();
        let result = suggest(seen, &options);
        show(&Calibrated {
            executions: None,
            subject,
            when: Some("Mon 00:00 to Sun 24:00"),
            waited: Some(ms(60_000)),
            seen,
            percentile: options.percentile,
            result: result.as_ref().map_err(Vec::as_slice),
            stopped: None,
            filled: None,
            compared,
        })
    }

    /// Returns the lines of a drawing that have one of these words in them.
    fn lines<'p>(page: &'p str, drawing: &str, words: &[&str]) -> Vec<&'p str> {
        let from = page.find(&format!("<title id=\"{drawing}-t\">")).expect("it is drawn");
        let svg = page[from..].split("</svg>").next().expect("it ends");
        svg.lines().filter(|line| words.iter().any(|word| line.contains(word))).collect()
    }

    #[test]
    fn the_curve_shows_percentiles_and_both_limits_and_says_them_too() {
        let page = drawn(&seen(0..24), "GET https://api.example/quote");
        let shown = lines(&page, "curve", &["<desc", "\"new", "\"old", "\"dot", "\"label", ">p"]);
        insta::assert_snapshot!(shown.join("\n"));
        let band = lines(&page, "curve", &["\"band\"", "\"curve\""]);
        assert!(band.len() == 2 && band.iter().all(|path| path.matches('L').count() > 70), "{band:?}");
        assert!(!page.contains("NaN") && !page.contains("inf"), "every place is a number");
    }

    #[test]
    fn limits_are_laid_over_each_other_and_what_was_measured() {
        let page = drawn(&seen(0..24), "GET https://api.example/quote");
        let shown = lines(&page, "limits", &["<desc", "\"was", "\"will", "\"dot", "\"label", "\"curve"]);
        insta::assert_snapshot!(shown.join("\n"));
    }

    #[test]
    fn hours_of_the_day_are_a_map_and_a_table_and_what_is_unseen_is_said() {
        let page = drawn(&seen(6..18), "GET https://api.example/quote");
        assert_eq!(lines(&page, "hours", &["\"unseen\""]).len(), 12);
        let fields = lines(&page, "hours", &["\"some\""]);
        assert!((12..=12 * 24).contains(&fields.len()), "{}", fields.len());
        assert!(page.contains("Grey: 12 hours without a sample"), "{page}");
        assert!(page.contains("<tr><td>09:00</td><td>420</td><td>0</td>"), "{page}");
        assert_eq!(page.matches("<td>420</td>").count(), 12);
    }

    #[test]
    fn what_carries_no_map_of_the_hours_says_so() {
        let page = drawn(&seen(9..10), "GET https://api.example/quote");
        assert!(page.contains("All samples are from 09:00 to 10:00 UTC.") && !page.contains("hours-t"), "{page}");
        let without = Seen { minutes: Minutes::Unknown, hours: Hours::default(), ..seen(9..10) };
        let page = drawn(&without, "latencies.txt");
        assert!(page.contains("The samples came without times") && !page.contains("hours-t"), "{page}");
    }

    /// Returns the page on which a whole measurement is compared with answers that take `times` as long.
    fn compared_page(seen: &Seen, times: u64, beyond: u64) -> (String, String) {
        let new = (0..900)
            .map(|n| if n < beyond { Sample::Censored(ms(9_000)) } else { Sample::Event(ms((90 + n % 211) * times)) });
        let new = Latencies::from_samples(new).expect("few samples");
        let (read, accepted) = (ms(5_000), Share::P99.complement());
        let moved = |percentile| {
            let [before, now] = [&seen.read, &new].map(|latencies| latencies.value(percentile).ok());
            Moved { percentile, before, now }
        };
        let with = "[measured] of <acme>.toml".to_owned();
        let drift = Drift::new(&seen.read, &new, read, accepted);
        let compared = Compared {
            with,
            lacks: None,
            drift,
            read,
            accepted,
            percentiles: [Share::P50, Share::P99].map(moved).into(),
        };
        let page = with_all(seen, "GET /", Some(&compared), |found| page(found, &Planned::default(), "Made today"));
        (page, compared.text(Paint::Plain))
    }

    #[test]
    fn a_comparison_is_on_the_page_in_the_words_of_the_text() {
        let seen = seen(9..10);
        for (times, beyond, verdict) in
            [(30, 300, "drifted: the partner has become slower"), (1, 0, "no drift: no slower")]
        {
            let (page, text) = compared_page(&seen, times, beyond);
            let mut words: Vec<&str> = text.lines().map(str::trim).collect();
            assert!(words.remove(2).starts_with("p50 ") && words[1].starts_with(verdict), "{text}");
            for line in words {
                assert!(page.contains(&escaped(line)), "{line}: {page}");
            }
            let bars = lines(&page, "compared", &["\"was\"", "\"will\""]);
            assert_eq!(
                (bars.len(), bars.iter().filter(|bar| bar.contains("\"0.35\"")).count()),
                (4, usize::from(beyond > 0))
            );
            assert_eq!(page.contains("class=\"short warn\""), beyond > 0);
        }
        let (page, _) = compared_page(&seen, 30, 300);
        assert!(
            page.contains("<td>99 of 100 (p99)</td>") && page.contains("<td>longer than was waited for</td>"),
            "{page}"
        );
        assert!(!drawn(&seen, "GET /").contains("Compared with"));
    }

    #[test]
    fn what_was_called_off_is_told_apart_from_what_was_given_up() {
        let waits =
            [Sample::Event(ms(20)), Sample::Censored(ms(500)), Sample::Censored(ms(70)), Sample::Censored(ms(60_000))];
        let read = Latencies::from_samples(waits).expect("few samples");
        let none = Latencies::from_samples([]).expect("no samples");
        let seen = Seen { read, whole: none, called_off: 2, hours: Hours::default(), ..seen(9..10) };
        assert!(drawn(&seen, "GET /").contains("<p>1 answer, 1 given up after 1m, 2 called off, Mon 00:00"));
        let counts = with(&seen, "GET /", |found| document(found, &Planned::default(), 8)["counts"].clone());
        assert_eq!([&counts["answered"], &counts["given_up"], &counts["called_off"]], [1, 1, 2]);
        let all = Seen { called_off: 3, ..seen };
        assert!(drawn(&all, "GET /").contains("<p>1 answer, 3 called off, Mon 00:00"));
    }

    #[test]
    fn what_was_refused_is_said_and_what_was_measured_is_drawn() {
        let few = Latencies::from_samples([Sample::Event(ms(20)), Sample::Censored(ms(500))]).expect("two samples");
        let page = drawn(&Seen { read: few, hours: Hours::default(), ..seen(9..10) }, "GET /");
        assert!(page.contains("<p>No limits are suggested</p>") && page.contains("1 answers are too few"), "{page}");
        assert!(page.contains("curve-t") && !page.contains("limits-t") && page.contains("&gt; 500ms"), "{page}");
        let none = Latencies::from_samples([]).expect("no samples");
        let page = drawn(&Seen { read: none, hours: Hours::default(), ..seen(9..10) }, "GET /");
        assert!(page.contains("No limits are suggested") && !page.contains("<svg"), "{page}");
    }

    #[test]
    fn a_page_needs_nothing_from_elsewhere_and_no_text_becomes_markup() {
        let page = drawn(&seen(0..24), "GET http://h/<script>alert('1')</script>?a=\"b\"&c\u{1b}[2J");
        assert!(page.starts_with(BEGINNING) && page.ends_with("</html>\n"));
        assert!(
            page.contains("GET http://h/&lt;script&gt;alert('1')&lt;/script&gt;?a=&quot;b&quot;&amp;c?[2J"),
            "{page}"
        );
        for word in ["<script", " src=", " href=", "url(", "@import", "javascript:", " onload", "http-equiv=\"refresh"]
        {
            assert!(!page.contains(word), "{word}");
        }
    }
}
