//! The arguments of `abide replay` and `abide resolve`.

use super::{LedgerChoice, STATUSES};
use clap::{ArgGroup, Args};
use std::path::PathBuf;

const REPLAY_EXAMPLES: &str = "\
Examples:
  abide replay order-17
      Brings one operation to a verdict: asks the partner first where its profile says how, and sends it again only
      where that cannot do it twice.
  abide replay -p acme --dry-run
      Shows what would be done with acme's unsettled operations, and why. Sends nothing.
  abide replay -p acme --jobs 8 --rate 20/s --total-deadline 10m --report-junit report.xml
      All of them, eight at a time.";

const WORST: &str = "\
A batch ends with the status of its worst operation, in the order 70, 6, 4, 1, 7, 3, 5, 0. What was not sent counts with \
its last verdict.";

/// `abide replay`.
#[derive(Args, Debug)]
#[command(after_long_help = format!("{REPLAY_EXAMPLES}\n\n{STATUSES}\n\n{WORST}"))]
pub struct ReplayArgs {
    /// Only the operations with these keys
    pub keys: Vec<String>,
    /// Only what is in these states: not-done, in-doubt, accepted, rejected, pending
    ///
    /// Without it: not-done, in-doubt, accepted; with KEY also pending, which is what nothing was started of.
    #[arg(long, value_name = "STATE,…", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Only this partner's operations, with this profile: a name in ./profiles or ~/.config/abide/profiles, or a file
    ///
    /// A profile with neither partner nor base_url takes the operations that were sent with that file. Without -p each
    /// operation uses the profile that it was sent with.
    #[arg(short, long, value_name = "NAME|PATH")]
    pub profile: Option<String>,
    /// Every unsettled operation of the default ledger, without a question
    #[arg(long)]
    pub all: bool,
    /// Also what is past the time that its key is trusted
    #[arg(long)]
    pub older: bool,
    /// How it is done.
    #[command(flatten)]
    pub pace: PaceArgs,
    /// What is risked.
    #[command(flatten)]
    pub risk: RiskArgs,
    /// Pass by this proxy, as with `abide send`; without it [proxy] of the profile or the environment counts
    #[arg(short = 'x', long, value_name = "URL")]
    pub proxy: Option<String>,
    /// The body of operations of which the ledger keeps only a hash; it is checked against that
    #[arg(short, long, value_name = "DATA|@FILE|-", allow_hyphen_values = true)]
    pub data: Option<String>,
    /// What is shown.
    #[command(flatten)]
    pub show: ReportArgs,
    /// Which ledger.
    #[command(flatten)]
    pub ledger: LedgerChoice,
}

/// How a batch is done.
#[derive(Args, Debug)]
#[command(next_help_heading = "Pace (durations: 250ms, 2s, 1m30s, 1h, 14d)")]
pub struct PaceArgs {
    /// How many at a time; with 1 the order of first sending is kept
    #[arg(long, value_name = "N", default_value_t = 1, hide_default_value = true,
          value_parser = clap::value_parser!(u16).range(1..=256))]
    pub jobs: u16,
    /// At most so many operations are begun per second
    #[arg(long, value_name = "N/s", allow_hyphen_values = true)]
    pub rate: Option<String>,
    /// When one operation ends: attempts, waits, questions, reading the answer
    #[arg(short = 'm', long, visible_alias = "max-time", value_name = "DURATION|@TIME", allow_hyphen_values = true)]
    pub deadline: Option<String>,
    /// When everything ends
    #[arg(long, value_name = "DURATION|@TIME", allow_hyphen_values = true)]
    pub total_deadline: Option<String>,
}

/// What is risked.
#[derive(Args, Debug)]
#[command(next_help_heading = "Risk")]
pub struct RiskArgs {
    /// Resend what is in doubt without asking the partner: it may be done twice. Asks on a terminal, needs --yes elsewhere
    #[arg(long)]
    pub accept_duplicate: bool,
    /// Answer yes to what would be asked
    #[arg(short = 'y', long)]
    pub yes: bool,
    /// Go on without a profile that is gone; ignore the base_url of one that names another
    #[arg(long)]
    pub force_profile: bool,
}

/// What is shown of a batch.
#[derive(Args, Debug)]
#[command(next_help_heading = "Output")]
pub struct ReportArgs {
    /// Show what would be done and why; send nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Write a JUnit report: an operation in doubt is an error, one that did not happen a failure
    #[arg(long, value_name = "FILE")]
    pub report_junit: Option<PathBuf>,
    /// One JSON line per attempt, wait and decision; - is stdout
    #[arg(long, value_name = "FILE|-")]
    pub events: Option<String>,
}

/// `abide resolve`.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("verdict").required(true))]
#[command(after_long_help = "\
Exit status: 0 recorded; 2 unknown key, or the partner has said otherwise; 5 a live process is working on it; 6 the ledger.

What a person found out on the partner's side is a fact like any other: it is kept with who said it and why. Proof is not
overruled. After --not-done, `abide replay KEY` sends it again.")]
pub struct ResolveArgs {
    /// The key of the operation
    pub key: String,
    /// The partner did it
    #[arg(long, group = "verdict")]
    pub confirmed: bool,
    /// The partner refused it for good; it did not happen and will not be sent again
    #[arg(long, group = "verdict")]
    pub rejected: bool,
    /// It did not happen; it may be sent again
    #[arg(long, group = "verdict")]
    pub not_done: bool,
    /// Where that is known from: for whoever reads the ledger later
    #[arg(long, value_name = "TEXT")]
    pub note: String,
    /// The partner, where several have this key: a profile, or the name that the ledger shows
    #[arg(short, long, value_name = "NAME|PATH")]
    pub profile: Option<String>,
    /// Which ledger.
    #[command(flatten)]
    pub ledger: LedgerChoice,
}
