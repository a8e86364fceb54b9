//! The arguments of `abide ledger …`.

use super::LedgerChoice;
use clap::{Args, Subcommand, ValueEnum};

/// `abide ledger …`.
#[derive(Debug, Subcommand)]
pub enum LedgerCommand {
    /// The operations, newest first
    List(LedgerListArgs),
    /// Every fact about one operation
    Show(LedgerShowArgs),
    /// Every operation in columns that stay the same, oldest first (--format jsonl|csv)
    Export(LedgerExportArgs),
    /// Read everything and say what is damaged or lost
    Verify(LedgerVerifyArgs),
    /// Drop payloads and answers of what is decided and old; keys and verdicts stay
    Compact(LedgerCompactArgs),
    /// Erase the payload and the answer of one operation; its key and verdict stay
    Forget(LedgerForgetArgs),
}

/// `abide ledger list`.
#[derive(Args, Debug)]
pub struct LedgerListArgs {
    /// Only the newest N
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
    /// Only this state
    #[arg(long, value_name = "STATE")]
    pub verdict: Option<StateFilter>,
    /// Only this partner
    #[arg(long, value_name = "NAME")]
    pub partner: Option<String>,
    /// Only what was opened since: a time, or how long ago
    #[arg(long, value_name = "DURATION|TIME", allow_hyphen_values = true)]
    pub since: Option<String>,
    /// Which ledger.
    #[command(flatten)]
    pub ledger: LedgerChoice,
}

/// A state that `ledger list` can be narrowed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StateFilter {
    /// The partner did it
    Confirmed,
    /// The partner refused it for good
    Rejected,
    /// Certainly not executed
    #[value(alias = "not_done")]
    NotDone,
    /// It may have been executed
    #[value(alias = "in_doubt")]
    InDoubt,
    /// Taken and not finished
    Accepted,
    /// A live process is working on it
    Running,
    /// Nothing was started
    Pending,
}

/// `abide ledger show`.
#[derive(Args, Debug)]
pub struct LedgerShowArgs {
    /// The key of the operation
    pub key: String,
    /// The partner, where several have this key
    #[arg(short, long, value_name = "NAME|PATH")]
    pub profile: Option<String>,
    /// Which ledger.
    #[command(flatten)]
    pub ledger: LedgerChoice,
}

/// `abide ledger export`. Its formats are `jsonl` (the default) and `csv`, in the common `--format`.
#[derive(Args, Debug)]
#[command(after_long_help = "\
--format jsonl (the default) prints one JSON object a line, --format csv what RFC 4180 says, with a head line.
Columns, in this order, also in later versions (new ones are added at the end). The same names are in both formats; what \
is unknown is empty in CSV and null in JSON lines. Times are RFC 3339, UTC.
  key          the idempotency key
  partner      whose API
  state        confirmed, rejected, not_done, in_doubt, accepted, running, pending
  verdict      the same, empty while running or pending
  cause        why the newest run ended so
  reason       what the newest attempt met
  evidence     what the newest attempt proves
  side         whose fault that is
  http         the HTTP status of the newest attempt
  attempts     over all runs
  ms           how long the newest attempt took
  method       of the request
  url          secrets masked
  account      the account label of the profile
  opened_at    when it was first claimed
  updated_at   when its newest line was written
  retry_at     the earliest time that another run makes sense
  key_until    until when the key is trusted
  valid_until  never sent at or after this time
  fingerprint  of the payload")]
pub struct LedgerExportArgs {
    /// Which ledger.
    #[command(flatten)]
    pub ledger: LedgerChoice,
}

/// `abide ledger compact`.
#[derive(Args, Debug)]
#[command(after_long_help = "\
What is confirmed or rejected keeps its key, verdict, URL, and the hash of its payload: nothing is ever sent again under \
its key. What is unsettled stays whole. Others may send meanwhile.
`abide replay` without --total-deadline does it by itself at its end, where over half of a ledger between 64 MiB and 1 GiB \
could go; a longer one takes much memory for it. There, and in `abide send -v`, is said what it would free.
Where the profile that an operation was sent with states [ledger] forget_after, it goes whole that long after its last \
line, and its key is a new one then: never before the partner has forgotten the key, too. An abide that does not know \
forget_after refuses such a ledger.")]
pub struct LedgerCompactArgs {
    /// Keep payloads and answers of the last DURATION (default: keep_full of the operation's profile, else 30d)
    #[arg(long, value_name = "DURATION")]
    pub keep_full: Option<String>,
    /// Which ledger.
    #[command(flatten)]
    pub ledger: LedgerChoice,
}

/// `abide ledger forget`.
#[derive(Args, Debug)]
pub struct LedgerForgetArgs {
    /// The key of the operation
    pub key: String,
    /// The partner, where several have this key
    #[arg(short, long, value_name = "NAME|PATH")]
    pub profile: Option<String>,
    /// Which ledger.
    #[command(flatten)]
    pub ledger: LedgerChoice,
}

/// `abide ledger verify`.
#[derive(Args, Debug)]
#[command(after_long_help = "Exit status: 0 nothing is wrong; 6 damaged, lost or not durable.")]
pub struct LedgerVerifyArgs {
    /// Write again what a failed sync left uncertain, and check it on the disk
    #[arg(long, conflicts_with = "accept_loss")]
    pub repair: bool,
    /// Set damaged lines aside and go on with what is left; what they may have said counts as in doubt
    #[arg(long)]
    pub accept_loss: bool,
    /// Which ledger.
    #[command(flatten)]
    pub ledger: LedgerChoice,
}
