//! `abide ledger verify`: what is damaged, lost or not durable, and what is done about it.

use super::args::LedgerVerifyArgs;
use super::exit::{Exit, Failure};
use super::{Format, Session, book, ledger_place};
use crate::report::json::line;
use crate::report::replay::operations;
use crate::report::request::shell_word;
use crate::report::table::table;
use abide::store::jsonl::{Accepted, Finding, Remedy, Repaired, Verified, accept_loss, repair, this_process, verify};
use serde::Serialize;
use std::path::Path;

/// No more findings are shown to people; a document has all.
const SHOWN: usize = 50;

/// Checks, and repairs or accepts where that is asked for.
///
/// # Errors
/// There is no ledger, it cannot be read, or the disk is still bad.
pub fn run(args: &LedgerVerifyArgs, session: &Session) -> Result<Exit, Failure> {
    let path = ledger_place::to_read(&args.ledger, &session.context)?;
    let shown = ledger_place::if_not_default(&args.ledger, &path)?;
    let options = book::options(&args.ledger, session);
    let refused = |error| Failure::of_store(&error);
    let repaired = args.repair.then(|| repair(&path, &options)).transpose().map_err(refused)?;
    let accepted = match args.accept_loss {
        true => Some(accept_loss(&path, &options, &this_process()).map_err(refused)?),
        false => None,
    };
    let verified = verify(&path, &options).map_err(refused)?;
    let exit = if verified.findings.is_empty() { Exit::Fine } else { Exit::Local };
    if session.format == Format::Json {
        session.print(&line(&document(&verified, repaired.as_ref(), accepted.as_ref(), exit)))?;
        return Ok(exit);
    }
    let mut blocks = Vec::new();
    blocks.extend(repaired.as_ref().map(repair_words));
    blocks.extend(accepted.as_ref().map(accept_words));
    if !verified.findings.is_empty() {
        blocks.push(findings(&verified));
    }
    blocks.push(summary(&verified));
    blocks.extend(next(&verified, shown));
    session.print(&blocks.join("\n\n"))?;
    Ok(exit)
}

fn findings(verified: &Verified) -> String {
    let rows = verified.findings.iter().take(SHOWN).map(|finding| {
        vec![finding.kind.name().replace('_', " "), finding.to_string(), remedy(finding.kind.remedy()).to_owned()]
    });
    let text = table(&["finding", "what", "what helps"], rows.collect());
    match verified.findings.len().saturating_sub(SHOWN) {
        0 => text,
        more => format!("{text}\n… and {more} more: --format json has them all"),
    }
}

fn remedy(remedy: Remedy) -> &'static str {
    match remedy {
        Remedy::Repair => "--repair: nothing is lost",
        Remedy::AcceptLoss => "a good copy, or --accept-loss",
        Remedy::Body => "a good copy of that body",
        Remedy::OtherVersion => "the version that wrote it",
    }
}

fn remedy_slug(remedy: Remedy) -> &'static str {
    match remedy {
        Remedy::Repair => "repair",
        Remedy::AcceptLoss => "accept_loss",
        Remedy::Body => "body",
        Remedy::OtherVersion => "other_version",
    }
}

fn summary(verified: &Verified) -> String {
    let Verified { path, bytes, lines, claims, bodies, findings, .. } = verified;
    let found = match findings.len() {
        0 => "nothing is wrong".to_owned(),
        1 => "1 finding".to_owned(),
        count => format!("{count} findings"),
    };
    format!(
        "{}: {found}; {lines} lines, {bytes} bytes, {}, {claims} claims, {bodies} bodies beside it",
        path.display(),
        operations(verified.operations)
    )
}

/// Returns the command that helps; repairs come first, since a loss is accepted only on a sound disk.
fn next(verified: &Verified, ledger: Option<&Path>) -> Option<String> {
    let needs = |remedy| verified.findings.iter().any(|finding| finding.kind.remedy() == remedy);
    let ledger = ledger.map(|path| format!(" --ledger {}", shell_word(&path.display().to_string())));
    let command = |flag: &str| format!("abide ledger verify {flag}{}", ledger.clone().unwrap_or_default());
    if needs(Remedy::Repair) {
        return Some(format!("next: {}", command("--repair")));
    }
    needs(Remedy::AcceptLoss).then(|| {
        format!(
            "next: nothing is sent with this ledger until a good copy is put back; without one, {} goes on with what is \
             left, and what may be lost counts as in doubt",
            command("--accept-loss")
        )
    })
}

fn repair_words(repaired: &Repaired) -> String {
    let mut lines = Vec::new();
    if repaired.rewritten.is_some_and(|(from, to)| from == to) {
        lines.push("the names of its files were synced again".into());
    } else if let Some((from, to)) = repaired.rewritten {
        let checked = match repaired.read_back {
            true => "read back from the disk",
            false => "not read back: this file system reads through its cache only",
        };
        lines.push(format!("bytes {from} to {to} were written and synced again, and {checked}"));
    }
    lines.extend(repaired.set_aside.iter().map(ToString::to_string));
    if lines.is_empty() {
        lines.push("there was nothing to repair".into());
    }
    lines.join("\n")
}

fn accept_words(accepted: &Accepted) -> String {
    let mut lines = Vec::new();
    if accepted.set_aside > 0 {
        lines.push(format!("{} damaged bytes are set aside in notes", accepted.set_aside));
    }
    for (partner, key) in &accepted.in_doubt {
        lines.push(format!("{key} ({partner}): in doubt now: something lost may have been about it"));
    }
    for (partner, key) in &accepted.lost {
        let whose = partner.as_ref().map(|partner| format!(" ({partner})")).unwrap_or_default();
        lines.push(format!("{key}{whose}: only the key is left; it is refused from now on"));
    }
    for (from, to) in &accepted.unknown {
        lines.push(format!(
            "claims {from} to {to}: not even the keys are left; compare with the partner's records before you send \
             anything again"
        ));
    }
    if lines.is_empty() {
        lines.push("nothing was lost".into());
    }
    lines.join("\n")
}

/// `abide.ledger.verify/1`.
#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    exit: i32,
    ledger: String,
    bytes: u64,
    lines: u64,
    operations: usize,
    claims: u64,
    bodies: usize,
    durable_bytes: u64,
    findings: Vec<FindingLine<'a>>,
    repaired: Option<RepairedLine>,
    accepted: Option<AcceptedLine<'a>>,
}

#[derive(Serialize)]
struct FindingLine<'a> {
    kind: &'static str,
    words: String,
    remedy: &'static str,
    line: Option<u64>,
    byte: u64,
    bytes: u64,
    n: Option<u64>,
    key: Option<&'a str>,
}

#[derive(Serialize)]
struct RepairedLine {
    rewritten: Option<(u64, u64)>,
    read_back: bool,
    set_aside: Vec<String>,
}

#[derive(Serialize)]
struct AcceptedLine<'a> {
    in_doubt: Vec<KeyOf<'a>>,
    lost: Vec<KeyOf<'a>>,
    unknown_claims: &'a [(u64, u64)],
    set_aside_bytes: u64,
}

#[derive(Serialize)]
struct KeyOf<'a> {
    partner: Option<&'a str>,
    key: &'a str,
}

fn document<'a>(
    verified: &'a Verified,
    repaired: Option<&Repaired>,
    accepted: Option<&'a Accepted>,
    exit: Exit,
) -> Document<'a> {
    Document {
        schema: "abide.ledger.verify/1",
        exit: exit.code(),
        ledger: verified.path.display().to_string(),
        bytes: verified.bytes,
        lines: verified.lines,
        operations: verified.operations,
        claims: verified.claims,
        bodies: verified.bodies,
        durable_bytes: verified.durable,
        findings: verified.findings.iter().map(finding_line).collect(),
        repaired: repaired.map(|repaired| RepairedLine {
            rewritten: repaired.rewritten,
            read_back: repaired.read_back,
            set_aside: repaired.set_aside.iter().map(ToString::to_string).collect(),
        }),
        accepted: accepted.map(|accepted| AcceptedLine {
            in_doubt: accepted
                .in_doubt
                .iter()
                .map(|(partner, key)| KeyOf { partner: Some(partner.as_str()), key: key.as_str() })
                .collect(),
            lost: accepted
                .lost
                .iter()
                .map(|(partner, key)| KeyOf { partner: partner.as_ref().map(|name| name.as_str()), key: key.as_str() })
                .collect(),
            unknown_claims: &accepted.unknown,
            set_aside_bytes: accepted.set_aside,
        }),
    }
}

fn finding_line(finding: &Finding) -> FindingLine<'_> {
    FindingLine {
        kind: finding.kind.name(),
        words: finding.to_string(),
        remedy: remedy_slug(finding.kind.remedy()),
        line: (finding.line > 0).then_some(finding.line),
        byte: finding.byte,
        bytes: finding.len,
        n: finding.n,
        key: finding.key.as_ref().map(|key| key.as_str()),
    }
}
