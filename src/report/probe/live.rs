//! The table of a watch: what the rounds so far come to, redrawn after each.

use super::time;
use super::wrap::cut;
use crate::report::paint::Paint;
use abide::engine::diagnose::Diagnosis;
use abide::engine::diagnose::judgement::Standing;
use abide::engine::moment::Timestamp;
use abide::engine::units::counted;
use std::net::SocketAddr;
use std::time::Duration;

/// How the times of one kind are spread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spread {
    /// The newest; `None` where the newest round has none.
    pub last: Option<Duration>,
    /// Half of them were no longer; `None` before the first.
    pub p50: Option<Duration>,
    /// 90 of 100 were no longer.
    pub p90: Option<Duration>,
    /// The longest.
    pub max: Option<Duration>,
}

/// One address over all rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressRow {
    /// The address.
    pub addr: SocketAddr,
    /// How long connecting took.
    pub connect: Spread,
    /// How often it was dialled.
    pub dialled: u64,
    /// How often it failed.
    pub failed: u64,
}

/// What the rounds so far come to.
#[derive(Clone, Debug)]
pub struct Live<'a> {
    /// What is watched, and how often.
    pub title: &'a str,
    /// What the newest round found; `None` before the first.
    pub found: Option<&'a Diagnosis>,
    /// A sign for each of the newest rounds, the newest last.
    pub signs: String,
    /// How many rounds.
    pub rounds: u64,
    /// How many of them got no answer.
    pub unanswered: u64,
    /// How many packets were sent again.
    pub resent: u64,
    /// Each stage by its name.
    pub stages: Vec<(&'static str, Spread)>,
    /// Each address, in the order in which they were met.
    pub addresses: Vec<AddressRow>,
}

/// No more addresses are shown.
const ADDRESSES_SHOWN: usize = 8;

/// Returns the table, no line wider than `width` columns. Colours only repeat what the words say.
pub fn table(live: &Live<'_>, paint: Paint, width: usize) -> String {
    let mut lines = vec![cut(live.title, width)];
    lines.extend(live.found.map(|found| verdict(found, paint, width)));
    if live.rounds > 0 {
        let losses = losses(live);
        let room = width.saturating_sub(losses.chars().count() + 2);
        let oldest = live.signs.chars().count().saturating_sub(room);
        lines.push(format!("{losses}  {}", live.signs.chars().skip(oldest).collect::<String>()));
        lines.push(columns("stage", 12, ["last", "p50", "p90", "max"].map(str::to_owned)));
        lines.extend(
            live.stages
                .iter()
                .filter(|(_, spread)| spread.max.is_some())
                .map(|(name, spread)| columns(name, 12, [spread.last, spread.p50, spread.p90, spread.max].map(time))),
        );
    }
    lines.extend(addresses(&live.addresses));
    let told = lines.iter().enumerate().map(|(at, line)| if at == 1 { line.clone() } else { cut(line, width) });
    told.collect::<Vec<_>>().join("\n")
}

fn columns(name: &str, wide: usize, cells: [String; 4]) -> String {
    let cells = cells.map(|cell| format!("{cell:>9}"));
    format!("{name:wide$}{}", cells.join(""))
}

/// Returns the line that tells of another verdict than before.
pub fn changed(at: Timestamp, found: &Diagnosis, paint: Paint, width: usize) -> String {
    let at = format!("{}Z  ", at.to_string().split('.').next().unwrap_or_default().replace('T', " "));
    format!("{at}{}", verdict(found, paint, width.saturating_sub(at.len())))
}

fn verdict(found: &Diagnosis, paint: Paint, width: usize) -> String {
    let side = found.side_name().to_uppercase();
    let line = cut(&format!("{side}  {} ({})", found.code.words(), found.standing.name()), width);
    let painted = match found.standing {
        Standing::Usable => paint.green(&side),
        Standing::Degraded | Standing::Unknown => paint.yellow(&side),
        Standing::Unusable => paint.red(&side),
    };
    line.replacen(&side, &painted, 1)
}

/// Returns how many rounds, answers and packets were lost: `12 rounds, 8 % without an answer, 2 packets sent again`.
fn losses(live: &Live<'_>) -> String {
    let percent = (live.unanswered.saturating_mul(100)).div_ceil(live.rounds.max(1));
    let lost = if live.unanswered == 0 { "all answered".into() } else { format!("{percent} % without an answer") };
    let resent = (live.resent > 0).then(|| format!(", {} sent again", counted(live.resent, "packet")));
    format!("{}, {lost}{}", counted(live.rounds, "round"), resent.unwrap_or_default())
}

/// Returns the addresses as far as they are shown; empty where there is one that never failed.
fn addresses(rows: &[AddressRow]) -> Vec<String> {
    if rows.len() < 2 && rows.iter().all(|row| row.failed == 0) {
        return Vec::new();
    }
    let head = columns("address", 28, ["last", "p50", "max", "failed"].map(str::to_owned));
    let row = |row: &AddressRow| {
        let failed = format!("{}/{}", row.failed, row.dialled);
        let connect = row.connect;
        columns(&row.addr.to_string(), 28, [time(connect.last), time(connect.p50), time(connect.max), failed])
    };
    let more = rows.len().saturating_sub(ADDRESSES_SHOWN);
    let more = (more > 0).then(|| format!("{more} more"));
    std::iter::once(head).chain(rows.iter().take(ADDRESSES_SHOWN).map(row)).chain(more).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use abide::engine::diagnose::diagnose;
    use abide::engine::diagnose::observations::Observations;

    fn ms(ms: u64) -> Option<Duration> {
        Some(Duration::from_millis(ms))
    }

    fn spread(last: Option<Duration>) -> Spread {
        Spread { last, p50: ms(12), p90: ms(13), max: ms(1_012) }
    }

    fn row(text: &str, failed: u64) -> AddressRow {
        let connect = if failed == 12 { Spread::default() } else { spread(ms(12)) };
        AddressRow { addr: text.parse().expect("an address"), connect, dialled: 12, failed }
    }

    fn live(found: &Diagnosis) -> Live<'_> {
        Live {
            title: "watch GET https://api.example/health  every 5s, Ctrl-C ends it",
            found: Some(found),
            signs: "..d.T?......".into(),
            rounds: 12,
            unanswered: 1,
            resent: 2,
            stages: vec![("resolve", Spread::default()), ("connect", spread(ms(12))), ("first byte", spread(None))],
            addresses: vec![row("203.0.113.10:443", 0), row("[2001:db8::10]:443", 12)],
        }
    }

    #[test]
    fn the_table_of_a_watch() {
        let found = diagnose(&Observations::default());
        insta::assert_snapshot!(table(&live(&found), Paint::Plain, 80), @r"
        watch GET https://api.example/health  every 5s, Ctrl-C ends it
        UNCLEAR  nothing was looked at (unknown)
        12 rounds, 9 % without an answer, 2 packets sent again  ..d.T?......
        stage            last      p50      p90      max
        connect          12ms     12ms     13ms       1s
        first byte          -     12ms     13ms       1s
        address                          last      p50      max   failed
        203.0.113.10:443                 12ms     12ms       1s     0/12
        [2001:db8::10]:443                  -        -        -    12/12
        ");
        let newest = table(&live(&found), Paint::Plain, 60);
        assert!(newest.contains("2 packets sent again  ....\n"), "{newest}");
    }

    #[test]
    fn no_line_is_wider_than_the_terminal_and_colours_only_repeat_words() {
        let found = diagnose(&Observations::default());
        let mut live = live(&found);
        live.addresses = (0..20).map(|_| row("[2001:db8:aaaa:bbbb:cccc:dddd:eeee:ffff]:44300", 1)).collect();
        for width in [1, 20, 40, 80, 200] {
            let text = table(&live, Paint::Plain, width);
            assert!(text.lines().all(|line| line.chars().count() <= width), "{width}: {text}");
            assert!(text.lines().count() <= 24, "{text}");
        }
        let coloured = table(&live, Paint::Colours, 80);
        assert!(coloured.contains("\u{1b}[33;1mUNCLEAR\u{1b}[0m"), "{coloured}");
        let plain = coloured.replace("\u{1b}[33;1m", "").replace("\u{1b}[0m", "");
        assert_eq!(plain, table(&live, Paint::Plain, 80));
    }

    #[test]
    fn a_change_is_one_line() {
        let found = diagnose(&Observations::default());
        let at = "2026-11-30T10:00:00.123Z".parse().expect("a time");
        assert_eq!(
            changed(at, &found, Paint::Plain, 80),
            "2026-11-30 10:00:00Z  UNCLEAR  nothing was looked at (unknown)"
        );
        assert_eq!(changed(at, &found, Paint::Plain, 40), "2026-11-30 10:00:00Z  UNCLEAR  nothing…");
    }

    #[test]
    fn before_the_first_round_only_what_is_watched_is_told() {
        let found = diagnose(&Observations::default());
        let none = Live { found: None, rounds: 0, addresses: Vec::new(), ..live(&found) };
        assert_eq!(table(&none, Paint::Plain, 100), none.title);
    }
}
