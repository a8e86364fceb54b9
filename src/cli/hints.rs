//! What fingers that know curl, xh and HTTPie type, and what to type here instead.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Flags that are not ours, by what other tools call them, and what to type here instead.
const FLAGS: &[(&[&str], &str)] = &[
    (&["--retry-max-time"], "--deadline DURATION ends everything: attempts, waits and the answer's body"),
    (&["--retry-delay"], "the waits are [retry] base and cap of a profile; Retry-After is always kept"),
    (
        &["--retry-all-errors", "--retry-connrefused"],
        "what may be repeated without doing it twice is repeated already; --max-attempts N bounds it",
    ),
    (
        &["-k", "--insecure"],
        "certificates are always checked; --cacert FILE trusts the issuer of a partner's own certificate",
    ),
    (&["--key-type", "--cert-type"], "leave it out: files are PEM"),
    (&["--pass"], "state key_password_env or key_password_file in [tls] of a profile"),
    (&["--capath"], "join the certificates into one file: --cacert FILE"),
    (&["--tlsv1.2", "--tlsv1.3"], "leave it out: TLS 1.2 and 1.3 are spoken, nothing older"),
    (&["-F", "--form"], "build the form into a file and send it with -d @FILE -H 'Content-Type: …'"),
    (&["-s", "--silent", "-S", "--show-error"], "use -q; errors and the verdict are always shown"),
    (
        &["-f", "--fail", "--fail-with-body"],
        "leave it out: a refusal by the partner always has its own exit status (1), see abide --help",
    ),
    (&["--data-raw", "--data-binary", "--data-ascii"], "use -d: it sends the bytes exactly as given"),
    (&["--data-urlencode"], "encode it first: -d sends the bytes exactly as given"),
    (&["-G", "--get"], "write the parameters into the URL"),
    (&["-I", "--head"], "use: abide send HEAD URL -i"),
    (&["-A", "--user-agent"], "use -H 'User-Agent: …'"),
    (&["-e", "--referer"], "use -H 'Referer: …'"),
    (&["-b", "--cookie"], "use -H 'Cookie: …' or -H @FILE, which keeps it out of the process list"),
    (&["-T", "--upload-file"], "use: abide send PUT URL -d @FILE"),
    (&["-O", "--remote-name", "-J"], "use -o FILE"),
    (&["-w", "--write-out"], "use --format json: it has the status, the times and the verdict"),
    (&["-D", "--dump-header"], "use -i"),
    (&["--timeout"], "use --deadline DURATION for everything, or --read-timeout for one attempt's answer"),
    (&["-j"], "the body is --json DATA; machine output is --format json"),
    (&["--idem", "--idempotency"], "use --key KEY"),
    (&["--max-retries", "--retries"], "use --max-attempts N, the first attempt included"),
    (&["--output-format"], "use --format json"),
    (&["--compressed"], "leave it out: answers are taken as they come"),
    (&["--http1.1", "--http2"], "leave it out: HTTP/1.1 is spoken"),
];

/// Commands of the contract that are not built yet.
const LATER: &[&str] = &["completions", "man", "enqueue", "work", "serve", "alerts", "breaker", "metrics"];
/// The same below `ledger` and `profile`.
const LATER_BELOW: &[&str] = &["new", "schema"];

/// What to say about an argument that was not understood.
#[derive(Debug, PartialEq, Eq)]
pub struct Advice {
    /// What is wrong; `None`: clap's own words will do.
    pub message: Option<String>,
    /// What to do instead.
    pub hint: String,
}

/// Returns what to say about `error`, where we know better than clap; `argv` holds the words as typed.
pub fn advise(error: &clap::Error, argv: &[String]) -> Option<Advice> {
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        _ => None,
    };
    match error.kind() {
        ErrorKind::InvalidSubcommand => command(&context(ContextKind::InvalidSubcommand)?, argv),
        ErrorKind::UnknownArgument => flag(&context(ContextKind::InvalidArg)?, argv),
        ErrorKind::MissingRequiredArgument | ErrorKind::InvalidValue if argv.iter().any(|word| word == "--json") => {
            Some(Advice {
                message: None,
                hint: "--json takes the request body, as in curl; machine output is --format json".into(),
            })
        }
        ErrorKind::ArgumentConflict if argv.iter().filter(|word| *word == "-d" || *word == "--data").count() > 1 => {
            Some(Advice { message: None, hint: "join the parts yourself: -d sends the bytes exactly as given".into() })
        }
        _ => None,
    }
}

fn command(name: &str, argv: &[String]) -> Option<Advice> {
    let below = argv.iter().any(|word| word == "ledger" || word == "profile");
    if LATER.contains(&name) || (below && LATER_BELOW.contains(&name)) {
        return Some(not_built(&format!("`abide {}`", if below { argv_pair(name, argv) } else { name.to_owned() })));
    }
    let looks_like_a_request = name.contains("://")
        || name.starts_with('/')
        || matches!(name.to_ascii_uppercase().as_str(), "GET" | "POST" | "PUT" | "PATCH" | "DELETE" | "HEAD");
    looks_like_a_request.then(|| Advice { message: None, hint: format!("to send a request: abide send {name} …") })
}

fn argv_pair(name: &str, argv: &[String]) -> String {
    let parent = if argv.iter().any(|word| word == "ledger") { "ledger" } else { "profile" };
    format!("{parent} {name}")
}

fn not_built(what: &str) -> Advice {
    Advice {
        message: Some(format!("{what} is not built yet")),
        hint: "it comes in a later version; `abide --help` lists what there is".into(),
    }
}

fn flag(typed: &str, argv: &[String]) -> Option<Advice> {
    let name = typed.split_once('=').map_or(typed, |(name, _)| name);
    let sends = argv.iter().any(|word| word == "send");
    if name == "--retry" {
        return Some(Advice { message: None, hint: retries(typed, argv) });
    }
    if name == "--json" {
        return Some(Advice { message: None, hint: "machine output is --format json".into() });
    }
    if !sends {
        return None;
    }
    let (_, hint) = FLAGS.iter().find(|(names, _)| names.contains(&name))?;
    Some(Advice { message: None, hint: (*hint).into() })
}

/// Returns the `--max-attempts` that does what curl's `--retry` would: the first attempt counts here.
fn retries(typed: &str, argv: &[String]) -> String {
    let joined = typed.split_once('=').map(|(_, value)| value.to_owned());
    let next = || {
        let at = argv.iter().position(|word| word == "--retry" || word.starts_with("--retry="))?;
        let word = argv.get(at)?;
        word.split_once('=').map(|(_, value)| value.to_owned()).or_else(|| argv.get(at + 1).cloned())
    };
    match joined.or_else(next).and_then(|text| text.parse::<u32>().ok()) {
        Some(retries) => {
            format!("use --max-attempts {}: the first attempt is counted here", retries.saturating_add(1))
        }
        None => "use --max-attempts N: the first attempt is counted here".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::args::Cli;
    use super::*;
    use clap::Parser;

    fn advice(line: &[&str]) -> Option<Advice> {
        let argv: Vec<String> = std::iter::once("abide").chain(line.iter().copied()).map(str::to_owned).collect();
        let error = Cli::try_parse_from(&argv).expect_err("is refused");
        advise(&error, &argv)
    }

    #[test]
    fn fingers_that_know_curl_are_told_what_to_type_here() {
        let cases: &[(&[&str], &str)] = &[
            (&["send", "http://h/", "--retry", "3"], "--max-attempts 4"),
            (&["send", "http://h/", "--retry=3"], "--max-attempts 4"),
            (&["send", "http://h/", "--retry"], "--max-attempts N"),
            (&["send", "-k", "http://h/"], "always checked"),
            (&["send", "-sS", "http://h/"], "use -q"),
            (&["send", "-fsS", "http://h/"], "own exit status"),
            (&["send", "-F", "a=b", "http://h/"], "-d @FILE"),
            (&["send", "http://h/", "--json"], "--format json"),
            (&["status", "k", "--json"], "--format json"),
            (&["send", "http://h/", "--data-binary", "@f"], "use -d"),
            (&["send", "http://h/", "-d", "1", "-d", "2"], "join the parts"),
            (&["POST", "http://h/"], "abide send POST"),
            (&["http://h/"], "abide send http://h/"),
        ];
        for (line, expected) in cases {
            let hint = advice(line).map(|advice| advice.hint).unwrap_or_default();
            assert!(hint.contains(expected), "{line:?}: {hint}");
        }
    }

    #[test]
    fn what_is_not_built_yet_says_so() {
        let cases: &[(&[&str], &str)] = &[
            (&["serve"], "`abide serve` is not built yet"),
            (&["profile", "new"], "`abide profile new` is not built yet"),
        ];
        for (line, expected) in cases {
            assert_eq!(advice(line).and_then(|advice| advice.message).as_deref(), Some(*expected), "{line:?}");
        }
    }

    #[test]
    fn no_flag_of_ours_is_called_foreign() {
        use clap::CommandFactory;
        let command = Cli::command();
        let send = command.get_subcommands().find(|sub| sub.get_name() == "send").expect("send");
        for (names, _) in FLAGS {
            for name in *names {
                let ours = send.get_arguments().any(|arg| {
                    arg.get_long().is_some_and(|long| *name == format!("--{long}"))
                        || arg.get_short().is_some_and(|short| *name == format!("-{short}"))
                });
                assert!(!ours, "{name}");
            }
        }
    }

    #[test]
    fn the_arguments_are_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }
}
