//! The arguments as they are typed: what is read where, and the help that teaches it.
//!
//! Texts stay texts here. [`super::plan`] reads them, so that a flag and its variable get the same words when wrong.

mod calibrate;
mod ledger;
mod probe;
mod replay;
mod tls;
mod way;

pub use calibrate::{CalibrateArgs, SamplingArgs, SuggestingArgs};
pub use ledger::{
    LedgerCommand, LedgerCompactArgs, LedgerExportArgs, LedgerForgetArgs, LedgerListArgs, LedgerShowArgs,
    LedgerVerifyArgs, StateFilter,
};
pub use probe::ProbeArgs;
pub use replay::{ReplayArgs, ResolveArgs};
pub use tls::{TlsArgs, absolute};
pub use way::WayArgs;

use abide::rehearse::partner::Fault;
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

/// What `--help` ends with: the exit statuses, which are the product.
const STATUSES: &str = "\
Exit status: may I run it again?
  0   confirmed: the partner did it, or the ledger already had the answer
  1   rejected: refused for good, it did not happen; only after changing something
  2   usage or profile error; nothing was sent
  3   not done: certainly not executed; running it again is safe
  4   in doubt: it may have been executed; not with another tool: `abide replay KEY` asks first
  5   accepted and not finished, or another live process is working on this key
  6   local failure: ledger, disk, rights; the message says whether anything may have left
  7   this key was used with another payload; nothing was sent
  8   a check did not pass: `abide calibrate` refused to suggest limits, `abide probe` found the partner unusable
  70  a bug in abide
  130, 143  SIGINT, SIGTERM, after the ledger was synced";

const ABOUT_SETTINGS: &str = "\
Settings are taken from the flag, else from the variable ABIDE_NAME (--connect-timeout: ABIDE_CONNECT_TIMEOUT), else \
from the profile, else the default. Variables exist for profile, ledger, format, color, deadline, valid-for, \
max-attempts and the time limits; an empty one counts as unset.";

const SEND_EXAMPLES: &str = "\
Examples:
  abide send POST https://api.example/pay --json '{\"amount\":100}' --key order-17
      One payment under a key of yours. The same line again sends nothing: it prints the stored answer.
  abide send -p acme POST /orders --json @order.json --deadline 30s
      With a profile: base URL, limits, retries and how to ask whether an order happened come from acme.toml.
  abide send -p acme POST /orders --json @order.json --dry-run
      Shows what would be sent and recorded, and sends nothing.";

/// Sends requests to slow, flaky partner APIs and always tells you whether they happened.
#[derive(Debug, Parser)]
#[command(name = "abide", version, max_term_width = 110, disable_help_subcommand = true)]
#[command(after_help = "`abide --help` lists the exit statuses; `abide COMMAND --help` explains a command.")]
#[command(after_long_help = format!("{STATUSES}\n\n{ABOUT_SETTINGS}"))]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// What every command takes.
    #[command(flatten)]
    pub common: Common,
}

/// What every command takes.
#[derive(Args, Clone, Debug)]
pub struct Common {
    /// Output on stdout: text, or one JSON document
    #[arg(long, global = true, value_name = "text|json", help_heading = "Output")]
    pub format: Option<String>,
    /// Say more on stderr; repeat for still more
    #[arg(short, long, global = true, action = clap::ArgAction::Count, help_heading = "Output")]
    pub verbose: u8,
    /// On stderr only errors, new keys, and verdicts other than confirmed
    #[arg(short, long, global = true, conflicts_with = "verbose", help_heading = "Output")]
    pub quiet: bool,
    /// Colours: auto (on a terminal, unless NO_COLOR is set), always, never
    #[arg(long, global = true, value_name = "WHEN", help_heading = "Output")]
    pub color: Option<String>,
    /// No spinner, not even on a terminal
    #[arg(long, global = true, help_heading = "Output")]
    pub no_progress: bool,
    /// Show a backtrace after a bug
    #[arg(long, global = true, help_heading = "Output", hide_short_help = true)]
    pub debug: bool,
}

/// The commands that are built.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run one operation under a deadline and a retry profile
    Send(Box<SendArgs>),
    /// Bring unsettled operations of a ledger to a verdict
    Replay(Box<ReplayArgs>),
    /// What is known about one operation; without KEY, what is unsettled
    Status(StatusArgs),
    /// Record what a person found out about an operation
    Resolve(ResolveArgs),
    /// Diagnose a partner stage by stage; say whose fault it is and what to do next
    Probe(Box<ProbeArgs>),
    /// Read, check and export the ledger
    #[command(subcommand)]
    Ledger(LedgerCommand),
    /// Check and explain profiles
    #[command(subcommand)]
    Profile(ProfileCommand),
    /// Measure how long a partner takes, and suggest limits with their evidence
    Calibrate(Box<CalibrateArgs>),
    /// Play a profile against a partner that misbehaves on purpose
    Rehearse(RehearseArgs),
}

/// Which ledger.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Ledger")]
pub struct LedgerChoice {
    /// The ledger: a file, `default`, or `none` (safe methods only)
    ///
    /// The default is $XDG_STATE_HOME/abide/ledger.jsonl, or ~/.local/state/abide/ledger.jsonl. With CI set, an unsafe
    /// method needs an explicit choice: the default ledger would end with the job.
    #[arg(long, value_name = "PATH|default|none")]
    pub ledger: Option<String>,
    /// Keep the ledger on a network file system although its locks cannot be trusted there
    #[arg(long, hide_short_help = true)]
    pub ledger_unsafe_fs: bool,
}

/// `abide send`.
#[derive(Args, Debug)]
#[command(after_long_help = format!("{SEND_EXAMPLES}\n\n{STATUSES}\n\n{ABOUT_SETTINGS}"))]
#[command(override_usage = "abide send [OPTIONS] [METHOD] URL|/PATH")]
pub struct SendArgs {
    /// The method, and an absolute URL or a path below the profile's base_url
    ///
    /// The method defaults to POST when there is a body, else to GET.
    #[arg(value_name = "[METHOD] URL|/PATH", num_args = 1.., required = true)]
    pub target: Vec<String>,
    /// The partner's rules: a name in ./profiles or ~/.config/abide/profiles, or a file
    #[arg(short, long, value_name = "NAME|PATH")]
    pub profile: Option<String>,
    /// What to send.
    #[command(flatten)]
    pub payload: Payload,
    /// Under which key.
    #[command(flatten)]
    pub identity: Identity,
    /// How long.
    #[command(flatten)]
    pub limits: LimitArgs,
    /// By which way.
    #[command(flatten)]
    pub way: WayArgs,
    /// Whom to trust, and what to show.
    #[command(flatten)]
    pub tls: TlsArgs,
    /// Where it is recorded.
    #[command(flatten)]
    pub ledger: LedgerChoice,
    /// What is shown.
    #[command(flatten)]
    pub show: ShowArgs,
}

/// What to send.
#[derive(Args, Debug)]
#[command(next_help_heading = "Request")]
pub struct Payload {
    /// The method, as an alternative to the first argument
    #[arg(short = 'X', long = "request", value_name = "METHOD")]
    pub method: Option<String>,
    /// A header field, or a file with one per line; repeatable
    #[arg(short = 'H', long = "header", value_name = "'Name: value'|@FILE")]
    pub headers: Vec<String>,
    /// The body, sent exactly as given; @FILE reads a file, - or @- reads stdin
    ///
    /// No content type is added: use --json, or -H 'Content-Type: …'.
    #[arg(short, long, value_name = "DATA|@FILE|-", conflicts_with = "json", allow_hyphen_values = true)]
    pub data: Option<String>,
    /// The body with content type application/json; @FILE reads a file, - or @- reads stdin
    #[arg(long, value_name = "DATA|@FILE|-", allow_hyphen_values = true)]
    pub json: Option<String>,
    /// Basic authentication
    #[arg(short, long, value_name = "USER:PASS")]
    pub user: Option<String>,
}

/// Under which key.
#[derive(Args, Debug)]
#[command(next_help_heading = "Identity")]
pub struct Identity {
    /// The idempotency key; the same key never starts a second operation
    ///
    /// Without --key and --key-from a key is made, recorded, and printed before the first byte leaves.
    #[arg(long, visible_alias = "idempotency-key", value_name = "KEY", allow_hyphen_values = true)]
    pub key: Option<String>,
    /// Take the key from the JSON body
    #[arg(long, value_name = "/JSON/POINTER", conflicts_with = "key")]
    pub key_from: Option<String>,
    /// Without a profile: the partner honours the key in this header
    #[arg(long, value_name = "NAME")]
    pub key_header: Option<String>,
    /// Without a key: start another operation although one with the same payload is unsettled
    #[arg(long, conflicts_with_all = ["key", "key_from"])]
    pub accept_duplicate: bool,
    /// Do not wait for another process that works on this key: exit 5 at once
    #[arg(long)]
    pub no_wait: bool,
}

/// How long. Durations are 250ms, 2s, 1m30s, 1h, 14d.
#[derive(Args, Debug)]
#[command(next_help_heading = "Limits (durations: 250ms, 2s, 1m30s, 1h, 14d)")]
pub struct LimitArgs {
    /// When the whole operation ends: attempts, waits, questions, reading the answer, recording
    ///
    /// The last 10 ms, at most a twentieth, are kept for recording.
    /// A time is RFC 3339 or a local HH:MM[:SS] of today.
    #[arg(short = 'm', long, visible_alias = "max-time", value_name = "DURATION|@TIME", allow_hyphen_values = true)]
    pub deadline: Option<String>,
    /// Never send it after this long, a later run included
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    pub valid_for: Option<String>,
    /// Attempts of this run, the first included
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub max_attempts: Option<String>,
    /// Name lookup and connection
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    pub connect_timeout: Option<String>,
    /// Idle time while the request goes out
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    pub write_timeout: Option<String>,
    /// From the last byte sent to the head of the answer
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    pub read_timeout: Option<String>,
    /// One whole attempt
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    pub attempt_timeout: Option<String>,
}

/// What is shown.
#[derive(Args, Debug)]
#[command(next_help_heading = "Output")]
pub struct ShowArgs {
    /// Write the body of the answer to a file
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Print the head of the answer before its body
    #[arg(short, long)]
    pub include: bool,
    /// One JSON line per attempt, wait and decision; - is stdout
    #[arg(long, value_name = "FILE|-")]
    pub events: Option<String>,
    /// Show what would be sent and recorded; send nothing, touch no ledger
    #[arg(long)]
    pub dry_run: bool,
    /// Print an equivalent curl line, secrets masked; send nothing
    #[arg(long, conflicts_with = "dry_run")]
    pub curl: bool,
}

/// `abide status`.
#[derive(Args, Debug)]
#[command(after_long_help = format!("{STATUSES}\n\nAn unknown KEY is 2. Without KEY the status is 0."))]
pub struct StatusArgs {
    /// The key of the operation
    pub key: Option<String>,
    /// The partner, where several have this key: a profile, or the name that the ledger shows
    #[arg(short, long, value_name = "NAME|PATH")]
    pub profile: Option<String>,
    /// Which ledger.
    #[command(flatten)]
    pub ledger: LedgerChoice,
}

/// `abide profile …`.
#[derive(Debug, Subcommand)]
pub enum ProfileCommand {
    /// Refuse what is wrong, and do the arithmetic: worst case, attempts that can never start, what is missing
    Check(ProfileChoice),
    /// The effective values and where each came from
    Show(ProfileChoice),
}

/// Which profile.
#[derive(Args, Debug)]
pub struct ProfileChoice {
    /// A name in ./profiles or ~/.config/abide/profiles, or a file
    #[arg(value_name = "NAME|PATH")]
    pub name: Option<String>,
    /// The same, as other commands take it
    #[arg(short, long, value_name = "NAME|PATH", conflicts_with = "name")]
    pub profile: Option<String>,
}

/// Returns the faults with what the partner does, for help.
fn faults() -> String {
    let lines = Fault::ALL.iter().map(|fault| format!("  {:<22}{}\n", fault.slug(), fault.words()));
    format!("Faults:\n{}\nExit status: 0 when every verdict was true, 70 otherwise.", lines.collect::<String>())
}

/// `abide rehearse`.
#[derive(Args, Debug)]
#[command(after_long_help = faults())]
pub struct RehearseArgs {
    /// The rules to play; without a profile, the defaults
    #[arg(short, long, value_name = "NAME|PATH")]
    pub profile: Option<String>,
    /// Only these faults (`abide rehearse --help` lists them)
    #[arg(long, value_name = "NAME", num_args = 1..)]
    pub fault: Vec<String>,
    /// Run one misbehaving partner on this port of 127.0.0.1 until Ctrl-C; 0 takes a free one
    #[arg(long, value_name = "PORT")]
    pub listen: Option<u16>,
    /// All time limits are multiplied by this, so that the play takes seconds
    #[arg(long, value_name = "FACTOR", conflicts_with = "listen")]
    pub scale: Option<f64>,
    /// The seed of the waits, to play the same again
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
}
