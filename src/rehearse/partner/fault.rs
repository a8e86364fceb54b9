//! Faults by name: what a person can ask a partner to do.

use super::script::{Act, Door, Reply, Script, Turn};
use std::fmt;
use std::time::Duration;

/// How long `delay` takes to answer.
const DELAY: Duration = Duration::from_millis(500);
/// How much `read-then-rst` reads, in bytes: more than a head, less than a large body.
const READ_BYTES: usize = 10_000;

macro_rules! faults {
    ($($name:ident = $slug:literal, $words:literal, $script:expr;)*) => {
        /// A fault by name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Fault {
            $(#[doc = $words] $name,)*
        }

        impl Fault {
            /// Every fault.
            pub const ALL: &'static [Fault] = &[$(Fault::$name),*];

            /// Returns the name used on the command line.
            pub const fn slug(self) -> &'static str {
                match self {
                    $(Fault::$name => $slug,)*
                }
            }

            /// Returns what the partner does, for people.
            pub const fn words(self) -> &'static str {
                match self {
                    $(Fault::$name => $words,)*
                }
            }

            /// Returns what the partner plays. Its status endpoint tells the truth.
            pub fn script(self) -> Script {
                match self {
                    $(Fault::$name => $script,)*
                }
            }
        }
    };
}

faults! {
    Fine = "fine", "executes and answers as it should", Script::always(Turn::fine());
    Refused = "refused", "refuses every connection", Script::always(Turn::fine()).behind(Door::Closed);
    BlackHole = "black-hole", "lets connection requests vanish", Script::always(Turn::fine()).behind(Door::Full);
    ExecutedThenSilent = "executed-then-silent", "executes, then never answers", Script::always(Turn::done(Act::Hang));
    ExecutedThenCut = "executed-then-cut", "executes, then cuts the connection", Script::always(Turn::done(Act::Fin));
    UnavailableTwice = "503-twice", "answers 503 twice, then executes",
        Script::first([unavailable(), unavailable()], Turn::fine());
    DripBody = "drip-body", "executes, then sends the answer byte by byte", Script::always(Turn::done(Act::DripBody));
    KeyHonoured = "key-honoured", "executes and loses the answer; the same key gets the stored one",
        Script::first([Turn::done(Act::Fin)], Turn::fine()).honouring_keys();
    AcceptFin = "accept-fin", "closes every connection at once", Script::always(Turn::not_done(Act::AcceptFin));
    AcceptRst = "accept-rst", "resets every connection at once", Script::always(Turn::not_done(Act::AcceptRst));
    NeverRead = "never-read", "accepts, and never reads", Script::always(Turn::not_done(Act::NeverRead));
    Unsolicited408 = "unsolicited-408", "sends a 408 before it was asked",
        Script::always(Turn::not_done(Act::Unsolicited408));
    ReadThenRst = "read-then-rst", "reads 10 kB, then resets", Script::always(Turn::not_done(Act::ReadThenRst(READ_BYTES)));
    HeadThenRst = "head-then-rst", "reads the head, then resets", Script::always(Turn::not_done(Act::HeadThenRst));
    ReadSlowly = "read-slowly", "reads slowly, then executes", Script::always(Turn::done(Act::ServeSlowly));
    Early413 = "early-413", "answers 413 before it has read the body", Script::always(Turn::not_done(Act::Early413));
    AllThenFin = "all-then-fin", "reads everything, then closes", Script::always(Turn::not_done(Act::Fin));
    AllThenRst = "all-then-rst", "reads everything, then resets", Script::always(Turn::not_done(Act::Rst));
    AllThenHang = "all-then-hang", "reads everything, then nothing", Script::always(Turn::not_done(Act::Hang));
    HalfHead = "half-head", "executes, then stops in the head of the answer", Script::always(Turn::done(Act::HalfHead));
    DripHead = "drip-head", "executes, then sends the head byte by byte", Script::always(Turn::done(Act::DripHead));
    EndlessHeaders = "endless-headers", "executes, then sends header fields for ever",
        Script::always(Turn::done(Act::EndlessHeaders));
    ContinueFlood = "continue-flood", "executes, then sends 100 Continue for ever",
        Script::always(Turn::done(Act::ContinueFlood));
    CutBody = "cut-body", "executes, then cuts the answer off", Script::always(Turn::done(Act::CutBody));
    StalledBody = "stalled-body", "executes, then stops in the body of the answer",
        Script::always(Turn::done(Act::StalledBody));
    GiantChunk = "giant-chunk", "executes, then sends a chunk without end", Script::always(Turn::done(Act::GiantChunk));
    Flood = "flood", "executes, then sends a body without end", Script::always(Turn::done(Act::Flood));
    Garbage = "garbage", "executes, then answers something that is not HTTP", Script::always(Turn::done(Act::Garbage));
    Delay = "delay", "executes, then answers after half a second",
        Script::always(Turn::done(Act::Answer(Reply::json(201, "{\"state\":\"done\"}").after(DELAY))));
    Html200 = "html-200", "answers 200 with a login page", Script::always(Turn::not_done(Act::Answer(Reply::page(200))));
    Redirect = "redirect", "answers 302 to another place",
        Script::always(Turn::not_done(Act::Answer(Reply::redirect(302, "/elsewhere"))));
}

fn unavailable() -> Turn {
    Turn::not_done(Act::Answer(Reply::status(503)))
}

impl Fault {
    /// Returns the fault of that name.
    pub fn named(slug: &str) -> Option<Fault> {
        Fault::ALL.iter().copied().find(|fault| fault.slug() == slug)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.slug())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_is_found_by_its_name_and_says_what_it_does() {
        for fault in Fault::ALL {
            assert_eq!(Fault::named(fault.slug()), Some(*fault));
            assert!(!fault.words().is_empty() && fault.words().len() < 70, "{fault}");
        }
        assert_eq!(Fault::named("no-such-fault"), None);
    }
}
