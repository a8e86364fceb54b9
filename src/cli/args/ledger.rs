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
