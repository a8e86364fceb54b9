//! The arguments of `abide probe`.

use super::{LedgerChoice, TlsArgs};
use clap::Args;

const EXAMPLES: &str = "\
Examples:
  abide probe https://api.example/health
      Name, every address, TLS, one GET: whose fault it is, how sure that is, and what to do next.
  abide probe -p acme /health --deadline 5s
      With a profile: its base URL, credentials, proxies and certificates, as `send` would use them.
  abide probe -p acme /health --nagios --max-attempts 3
      One line and 0, 1, 2 or 3 for a monitoring system; what fails is tried again before it is called so.
  abide probe -p acme /health --deep -v
      \"It works here, and not there\": every address, a kept connection, and the way that `send` takes.
  abide probe -p acme /health --watch --every 10s
      On a terminal a table of times and losses, redrawn after each round; else a line for each.

Exit status:
  0   the partner can be worked with; degraded counts as such, unless --strict
  2   usage or profile error; nothing was sent
  8   it cannot, or the probe could not tell
  With --nagios: 0 usable, 1 degraded, 2 not usable, 3 could not tell, or anything else.

Whose fault:
  ours           this machine: its clock, routes, name servers, proxy
  configuration  URL, profile, credentials, certificates: what somebody can correct in a file
  network        between: packets that are lost, rejected or changed
  theirs         the partner, or what stands before its servers
  unclear        the evidence does not tell

One GET is sent in each probe, over the first connection that stands; the other addresses are connected to and shaken hands \
with. With --deep it is one more on that connection, one to each other address (at most 8), and one by the way of `send`: \
the probe says how many it made. Nothing is recorded, and a method that changes something is never sent.";

/// `abide probe`.
#[derive(Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub struct ProbeArgs {
    /// An absolute URL, or a path below the profile's base_url; it is asked for with GET
    #[arg(value_name = "URL|/PATH")]
    pub target: String,
    /// The partner's rules: a name in ./profiles or ~/.config/abide/profiles, or a file
    #[arg(short, long, value_name = "NAME|PATH")]
    pub profile: Option<String>,
    /// A header field, or a file with one per line; repeatable
    #[arg(short = 'H', long = "header", value_name = "'Name: value'|@FILE", help_heading = "Request")]
    pub headers: Vec<String>,
    /// When the probe ends, name lookups included; 10s, or [timeouts] overall where that is less
    #[arg(short = 'm', long, value_name = "DURATION", allow_hyphen_values = true, help_heading = "Limits")]
    pub deadline: Option<String>,
    /// Pass by this proxy: http://, socks5:// or socks5h://, [USER:PASS@]HOST:PORT; '' passes by none
    #[arg(short = 'x', long, value_name = "URL", help_heading = "Way to the partner")]
    pub proxy: Option<String>,
    /// The addresses of a host and port, in place of a name lookup; repeatable
    #[arg(long, value_name = "HOST:PORT:ADDR[,ADDR]", help_heading = "Way to the partner")]
    pub resolve: Vec<String>,
    /// Whom to trust, and what to show.
    #[command(flatten)]
    pub tls: TlsArgs,
    /// Where what is usual with the partner is looked up; nothing is written.
    #[command(flatten)]
    pub ledger: LedgerChoice,
    /// Exit 8 also where the partner is degraded: it works, and something is not as it should be
    #[arg(long, help_heading = "Verdict")]
    pub strict: bool,
    /// One line with performance data, and the exit statuses of monitoring plugins
    #[arg(long, help_heading = "Verdict", conflicts_with = "strict")]
    pub nagios: bool,
    /// Ask more: a second time on the same connection, every other address, and once by the way of `send`; then watch the
    /// idle connection for up to 5s
    #[arg(long, help_heading = "Depth")]
    pub deep: bool,
    /// Probe up to so often while it fails, within the one deadline; 1
    #[arg(long, value_name = "N", conflicts_with_all = ["count", "watch"], allow_hyphen_values = true, help_heading = "Depth")]
    pub max_attempts: Option<String>,
    /// Probe so often, a line each, then a summary on stderr; the worst of the last three decides
    #[arg(long, value_name = "N", conflicts_with = "nagios", allow_hyphen_values = true, help_heading = "Rounds")]
    pub count: Option<String>,
    /// Probe until Ctrl-C: on a terminal a table that is drawn anew, elsewhere a line for each round
    #[arg(long, conflicts_with_all = ["nagios", "count"], help_heading = "Rounds")]
    pub watch: bool,
    /// From the begin of one probe to the begin of the next; 5s
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, help_heading = "Rounds")]
    pub every: Option<String>,
}
