//! `abide rehearse`: faults on purpose, against this very binary.

use super::args::RehearseArgs;
use super::exit::{Exit, Failure};
use super::signals::Signals;
use super::{Format, Session, plan};
use crate::report::json::line;
use crate::report::table::table;
use abide::engine::operation::Method;
use abide::engine::policy::Policy;
use abide::engine::units::{show_duration, show_rounded};
use abide::engine::verdict::{Cause, Verdict};
use abide::net::clock::Interrupt;
use abide::rehearse::partner::{Fault, Partner, Place};
use abide::rehearse::play::{Row, Rules, USUAL, play, unstated};
use abide::store::StoreError;
use serde::Serialize;
use std::time::Duration;

/// The play is over in less, whatever the profile says.
///
/// Source: issue 2, part H: under 5 s.
const PLAY_LIMIT: Duration = Duration::from_secs(4);
/// The usual scale.
const SCALE: f64 = 0.01;
/// How long a listening partner stays at most.
const LISTEN_LIFETIME: Duration = Duration::from_secs(24 * 3600);

/// Plays, or listens.
///
/// # Errors
/// An unknown fault, a wrong profile, no socket.
pub fn run(args: &RehearseArgs, session: &Session) -> Result<Exit, Failure> {
    let faults = faults(&args.fault)?;
    let interrupt = Interrupt::default();
    let ended = interrupt.clone();
    let runtime = |session: &Session| {
        let signals = Signals::take(session.screen.clone(), move || ended.set())?;
        let runtime = super::runtime()?;
        Ok::<_, Failure>((signals, runtime))
    };
    match args.listen {
        Some(port) => {
            let [fault] = faults[..] else {
                return Err(
                    Failure::usage("--listen plays one fault").hint("abide rehearse --listen 8080 --fault NAME")
                );
            };
            if args.profile.is_some() {
                return Err(Failure::usage("--listen takes no profile: the partner does what the fault says"));
            }
            let (_, runtime) = runtime(session)?;
            runtime.block_on(listen(fault, port, session, &interrupt))
        }
        None => {
            let rules = rules(args, faults.len(), session)?;
            let (signals, runtime) = runtime(session)?;
            let rows = runtime.block_on(play_all(&faults, &rules, session, &interrupt));
            runtime.shutdown_background();
            let rows = rows?;
            match signals.first() {
                Some(signal) => Ok(Exit::Signal(signal)),
                None => report(&rows, &rules, args, session),
            }
        }
    }
}

fn faults(named: &[String]) -> Result<Vec<Fault>, Failure> {
    if named.is_empty() {
        return Ok(USUAL.to_vec());
    }
    let named = named.iter().map(|name| {
        Fault::named(name).ok_or_else(|| {
            let known: Vec<&str> = Fault::ALL.iter().map(|fault| fault.slug()).collect();
            Failure::usage(format!("--fault {name}: no such fault"))
                .hint(format!("the faults are {}", known.join(", ")))
        })
    });
    named.collect()
}

fn rules(args: &RehearseArgs, faults: usize, session: &Session) -> Result<Rules, Failure> {
    // The partner of a rehearsal takes no secret.
    let profile = plan::blind_profile_of(args.profile.as_deref(), session)?;
    let policy = match &profile {
        None => unstated(),
        Some(profile) => {
            let post = Method::new("POST").expect("a method");
            let unnamed = || url::Url::parse("http://localhost/").expect("a URL");
            profile.policy(&post, &profile.base_url().cloned().unwrap_or_else(unnamed))
        }
    };
    let scale = match args.scale {
        Some(scale) if scale > 0.0 && scale <= 1.0 => scale,
        Some(scale) => return Err(Failure::usage(format!("--scale {scale}: above 0 and at most 1, such as 0.01"))),
        None => SCALE.min(fitting(&policy, faults)),
    };
    let seed = args.seed.or(session.context.seed).unwrap_or(1);
    Ok(Rules { policy, scale, lend_key: profile.is_none(), seed })
}

/// Returns the scale at which all faults together fit [`PLAY_LIMIT`] even if each takes its whole deadline.
fn fitting(policy: &Policy, faults: usize) -> f64 {
    let count = u32::try_from(faults).unwrap_or(u32::MAX).max(1);
    PLAY_LIMIT.as_secs_f64() / f64::from(count) / policy.timeouts.overall.as_secs_f64()
}

async fn play_all(
    faults: &[Fault],
    rules: &Rules,
    session: &Session,
    interrupt: &Interrupt,
) -> Result<Vec<Row>, Failure> {
    let mut ledger = super::book::ThrowAway::open(session)?;
    let mut rows = Vec::new();
    for fault in faults {
        if interrupt.is_set() {
            break;
        }
        let row = play(*fault, rules, &mut ledger.ledger, interrupt).await.map_err(|error| failed(&error))?;
        rows.push(row);
    }
    Ok(rows)
}

fn failed(error: &abide::rehearse::play::PlayError<StoreError>) -> Failure {
    Failure::local(anyhow::anyhow!("{error}"))
}

#[derive(Serialize)]
struct Played<'a> {
    schema: &'static str,
    exit: i32,
    profile: Option<&'a str>,
    scale: f64,
    seed: u64,
    faults: Vec<PlayedFault>,
}

#[derive(Serialize)]
struct PlayedFault {
    fault: &'static str,
    partner: &'static str,
    key_honoured: bool,
    verdict: Verdict,
    cause: Cause,
    reason: Option<&'static str>,
    is_true: bool,
    attempts: u32,
    executions: u32,
    questions: u32,
    took_ms: u64,
    deadline_ms: u64,
}

fn report(rows: &[Row], rules: &Rules, args: &RehearseArgs, session: &Session) -> Result<Exit, Failure> {
    let false_rows = rows.iter().filter(|row| !row.is_true()).count();
    let exit = if false_rows == 0 { Exit::Fine } else { Exit::Bug };
    if session.format == Format::Json {
        let document = Played {
            schema: "abide.rehearse/1",
            exit: exit.code(),
            profile: args.profile.as_deref(),
            scale: rules.scale,
            seed: rules.seed,
            faults: rows.iter().map(document).collect(),
        };
        session.print(&line(&document))?;
        return Ok(exit);
    }
    let head = ["the partner", "keys", "verdict", "attempts", "executed", "took", "deadline"];
    let cells = rows.iter().map(|row| {
        vec![
            row.fault.words().to_owned(),
            if row.key_honoured { "honoured".into() } else { "-".into() },
            format!("{}{}", row.verdict.name().replace('_', " "), if row.is_true() { "" } else { " (FALSE)" }),
            row.attempts.to_string(),
            row.seen.executions.to_string(),
            show_rounded(row.took),
            show_duration(row.deadline),
        ]
    });
    session.print(&table(&head, cells.collect()))?;
    let verdict = match false_rows {
        0 => format!("{} faults, every verdict was true", rows.len()),
        count => format!("{count} of {} verdicts were FALSE: that is a bug in abide, please report it", rows.len()),
    };
    session.print(&verdict)?;
    let doubts = rows.iter().filter(|row| row.verdict == Verdict::InDoubt).count();
    if doubts > 0 && rules.policy.status.is_none() {
        let which = if args.profile.is_some() { "the profile" } else { "a profile (-p)" };
        session.screen.talk(&format!(
            "{doubts} in doubt: with [status] in {which} abide asks the partner, also later: `abide replay KEY`"
        ));
    }
    Ok(exit)
}

fn document(row: &Row) -> PlayedFault {
    let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    PlayedFault {
        fault: row.fault.slug(),
        partner: row.fault.words(),
        key_honoured: row.key_honoured,
        verdict: row.verdict,
        cause: row.cause,
        reason: row.reason.map(|reason| reason.name()),
        is_true: row.is_true(),
        attempts: row.attempts,
        executions: row.seen.executions,
        questions: row.seen.questions,
        took_ms: ms(row.took),
        deadline_ms: ms(row.deadline),
    }
}

async fn listen(fault: Fault, port: u16, session: &Session, interrupt: &Interrupt) -> Result<Exit, Failure> {
    let place = Place { port, lifetime: LISTEN_LIFETIME, ..Place::default() };
    let partner = Partner::start_at(fault.script(), place)
        .map_err(|error| Failure::local(error).while_doing(format!("cannot listen on 127.0.0.1:{port}")))?;
    session.print(&format!(
        "a partner that {} listens on {} until Ctrl-C; send to it, then bring it to a verdict\n\n    \
         abide send POST {} --json '{{\"amount\":100}}' --key order-1 --ledger rehearsal.jsonl --deadline 5s\n    \
         abide replay order-1 --ledger rehearsal.jsonl\n",
        fault.words(),
        partner.addr(),
        partner.url("/orders")
    ))?;
    interrupt.wait().await;
    let seen = partner.stop().await;
    session.print(&format!(
        "connections {}, whole requests {}, executed {}, status requests {}",
        seen.connections, seen.whole, seen.executions, seen.questions
    ))?;
    Ok(Exit::Fine)
}
