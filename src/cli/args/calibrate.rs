//! The arguments of `abide calibrate`.

use super::{LedgerChoice, Payload, TlsArgs, WayArgs};
use clap::Args;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  abide calibrate -p acme /health
      300 requests, one a second, each on a connection of its own; then the limits that they ask for.
  abide calibrate -p acme /orders/by-ref/order-1 --over 24h
      300 requests spread over a day: what five minutes say holds for these five minutes only.
  abide calibrate https://api.example/ping --rate 5/s --duration 2m --percentile 99.9 --format json
      Limits by the slowest answer in a thousand, for a machine to read.
  abide calibrate -p acme POST /orders --from-ledger
      Limits from what was sent already: the only way to measure what must not be done twice.
  abide calibrate -p acme-sandbox POST /orders --json '{\"ref\":\"{key}\",\"amount\":1}' --allow-unsafe-method
      300 orders that the sandbox really executes, each under a key of its own, which also stands where {key} does.
  abide calibrate -p acme --samples-file latencies.txt --unit ms
      Limits from another tool's measurements.
  abide calibrate --samples-file curl:curl.txt
      The same from lines of: curl -s -o /dev/null -m 60 -w '%{json}\\n' https://api.example/ping >>curl.txt
  abide calibrate -p acme /health --compare
      For cron: has the partner become slower than [measured] of the profile says?
  abide calibrate -p acme /health --hlog monday.hlog
      Keep what was measured: --samples-file hlog:monday.hlog reads it again, and so do HdrHistogram's tools.
  abide calibrate -p acme /orders/by-ref/order-1 --over 24h --report acme.html
      The same with a page to look at and to hand on.";

const STATUSES: &str = "\
Exit status:
  0   limits are suggested; marked \"at least\" where the evidence is thin
  2   usage or profile error; nothing was sent
  8   refused: what was measured carries no suggestion; with --strict, or --write without --accept-thin, also where the
      evidence is thin; with --compare, also where the partner has become slower, or that cannot be told
  130, 143  SIGINT, SIGTERM: what was measured until then is shown

Only safe methods are sent, unless --allow-unsafe-method is given, and nothing is recorded in a ledger. A health page is usually faster than the work itself: \
ask for what costs the partner as much as your orders do.";

/// `abide calibrate`.
#[derive(Args, Debug)]
#[command(after_long_help = format!("{EXAMPLES}\n\n{STATUSES}"))]
#[command(override_usage = "abide calibrate [OPTIONS] [METHOD] URL|/PATH")]
pub struct CalibrateArgs {
    /// The method (POST with a body, else GET), and an absolute URL or a path below the profile's base_url
    #[arg(value_name = "[METHOD] URL|/PATH", num_args = 1.., required_unless_present = "samples_file")]
    pub target: Vec<String>,
    /// The partner's rules, whose limits are compared: a name in ./profiles or ~/.config/abide/profiles, or a file
    #[arg(short, long, value_name = "NAME|PATH")]
    pub profile: Option<String>,
    /// What is asked.
    #[command(flatten)]
    pub asked: Payload,
    /// Where samples come from.
    #[command(flatten)]
    pub source: SourceArgs,
    /// How samples are taken.
    #[command(flatten)]
    pub sampling: SamplingArgs,
    /// What is suggested.
    #[command(flatten)]
    pub suggesting: SuggestingArgs,
    /// What is kept.
    #[command(flatten)]
    pub keeping: KeepingArgs,
    /// By which way.
    #[command(flatten)]
    pub way: WayArgs,
    /// Whom to trust, and what to show.
    #[command(flatten)]
    pub tls: TlsArgs,
    /// Which ledger, for --from-ledger.
    #[command(flatten)]
    pub ledger: LedgerChoice,
}

/// Where samples come from, where none are taken.
#[derive(Args, Debug)]
#[command(next_help_heading = "Samples that were taken before")]
pub struct SourceArgs {
    /// Those of `abide send`: the first attempts of this method and path in the ledger; a * in the path is one segment
    ///
    /// Nothing is sent, so that any method will do. Later attempts are left out: a repeated key may be answered from
    /// the partner's store.
    #[arg(long, conflicts_with_all = ["samples", "rate", "duration", "over", "timeout", "closed", "seed",
          "allow_unsafe_method", "data", "json", "samples_file"])]
    pub from_ledger: bool,
    /// Those of another tool: a file with one latency a line, curl:FILE, or hlog:FILE; - is stdin
    ///
    /// curl:FILE holds what curl -w '%{json}\n' wrote, of curl 7.75 or later: its time-outs (28) count as given up.
    /// hlog:FILE is an interval log of HdrHistogram, written by --hlog or by another tool.
    #[arg(long, value_name = "[curl:|hlog:]FILE|-",
          conflicts_with_all = ["samples", "rate", "duration", "over", "timeout", "closed", "seed", "allow_unsafe_method",
          "data", "json"])]
    pub samples_file: Option<String>,
    /// The unit of --samples-file; not for curl, nor for what --hlog wrote, which say it themselves
    #[arg(long, value_name = "ms|s|us|ns", requires = "samples_file")]
    pub unit: Option<String>,
}

/// How samples are taken.
#[derive(Args, Debug)]
#[command(next_help_heading = "Sampling (durations: 250ms, 2s, 1m30s, 1h, 14d)")]
pub struct SamplingArgs {
    /// How many requests (default 300, unless --duration is given)
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub samples: Option<String>,
    /// How many of them a second, whatever has become of the ones before (default 1/s)
    ///
    /// As many as fit into --timeout may be under way at once, at most 1,000; what is due then is not sent, counted as
    /// missed, and makes the result a lower bound.
    #[arg(long, value_name = "N/s", allow_hyphen_values = true)]
    pub rate: Option<String>,
    /// How long, in place of a number of requests, or whichever ends first
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    pub duration: Option<String>,
    /// Spread the requests over this time, as 24h. The command stays running; stopped, it goes on when it is run again
    ///
    /// What is measured is kept below ~/.local/state/abide/latency while it runs. Ctrl-C shows what was measured so far.
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, conflicts_with_all = ["rate", "duration", "closed"])]
    pub over: Option<String>,
    /// How long to wait for each answer (default 1m): longer than any limit that you want to learn about
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    pub timeout: Option<String>,
    /// Send each request when the one before has come back: stalls of the partner hide themselves
    #[arg(long)]
    pub closed: bool,
    /// With --closed: how many at a time
    #[arg(long, value_name = "N", requires = "closed", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub jobs: Option<u16>,
    /// Also send what the partner executes: each sample is a real operation, which no ledger records
    ///
    /// For a sandbox account. Each sample has an idempotency key of its own, where the profile says that keys go, and in
    /// place of {key} in the address, in header fields and in the body. What became of them is counted at the end; Ctrl-C
    /// waits for those under way. Not with --over.
    #[arg(long)]
    pub allow_unsafe_method: bool,
    /// The seed of the moments at which requests leave, to repeat a run
    #[arg(long, value_name = "N", hide_short_help = true)]
    pub seed: Option<u64>,
}

/// What is kept of what was measured.
#[derive(Args, Debug)]
#[command(next_help_heading = "Files")]
pub struct KeepingArgs {
    /// Write what was measured into a new file, and its percentiles into one beside it that ends in .hgrm
    ///
    /// An interval log of HdrHistogram, a line a minute and stage, in nanoseconds: reading has no tag, connecting is
    /// connect.cold, the whole total.cold, and what was given up has .censored behind it.
    #[arg(long, value_name = "FILE", conflicts_with = "samples_file")]
    pub hlog: Option<PathBuf>,
}

/// What is suggested.
#[derive(Args, Debug)]
#[command(next_help_heading = "Suggestion")]
pub struct SuggestingArgs {
    /// The percentile that the read limit goes by (default 99: one answer in a hundred may come too late)
    #[arg(long, value_name = "P", allow_hyphen_values = true, conflicts_with = "false_timeouts")]
    pub percentile: Option<String>,
    /// The same, said as the share of answers that may come too late: 1% is --percentile 99
    #[arg(long, value_name = "SHARE%", allow_hyphen_values = true)]
    pub false_timeouts: Option<String>,
    /// What is added to the percentile (default 25%, or 50% where less than an hour was measured)
    #[arg(long, value_name = "SHARE%", allow_hyphen_values = true)]
    pub headroom: Option<String>,
    /// Thin evidence is a refusal (8)
    #[arg(long)]
    pub strict: bool,
    /// Tell whether the partner has become slower (8): since [measured] of the profile, or a file that --hlog wrote
    ///
    /// All samples are compared where [measured] names the file that --hlog wrote, else its p95 and p99 alone; which it was
    /// is said.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, conflicts_with = "write")]
    pub compare: Option<Option<String>>,
    /// Draw what was measured, and the limits, as one page that needs nothing else
    ///
    /// It shows percentiles with where they may lie, the limits now and new, the hours of the day, and what --compare found.
    /// An older report is replaced, another file is not.
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,
    /// Write the limits into the profile, in the section of this endpoint; shows what changes first
    ///
    /// Comments and layout stay. A profile that is read-only, or was changed meanwhile, is left alone. With --hlog it also
    /// says where that file lies (hlog in [measured]): from its own folder where it lies there or below, else absolute.
    #[arg(long)]
    pub write: bool,
    /// With --write: also where the evidence is thin
    #[arg(long, requires = "write")]
    pub accept_thin: bool,
}
