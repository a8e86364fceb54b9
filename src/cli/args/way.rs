//! The arguments about the way to the partner.

use clap::Args;

/// By which way.
#[derive(Args, Debug)]
#[command(next_help_heading = "Way to the partner")]
pub struct WayArgs {
    /// Pass by this proxy: http://, socks5:// or socks5h://, [USER:PASS@]HOST:PORT; '' passes by none
    ///
    /// Without it [proxy] of the profile counts, else http_proxy, https_proxy, all_proxy and NO_PROXY. What is given
    /// here counts for every host, and is not recorded: `abide replay` needs it again.
    #[arg(short = 'x', long, value_name = "URL")]
    pub proxy: Option<String>,
    /// The addresses of a host and port, in place of a name lookup; an IPv6 address in brackets; repeatable
    ///
    /// The request stays the same. Only the connection goes there: to the first, after a failed connection to the next.
    #[arg(long, value_name = "HOST:PORT:ADDR[,ADDR]")]
    pub resolve: Vec<String>,
    /// Follow redirects of GET and HEAD, ten in a row at most
    ///
    /// To another host, port or scheme go only fields that hold no credential: Accept, User-Agent, Range and the like.
    /// From https to http nothing is followed.
    #[arg(short = 'L', long)]
    pub location: bool,
}
