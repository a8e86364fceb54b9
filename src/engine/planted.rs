//! Faults that the simulation must catch, planted one at a time. Without the feature `seeded-bugs` there are none.

macro_rules! bugs {
    ($($name:ident: $words:literal;)*) => {
        /// A fault in a rule of the engine or the driver.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Bug {
            $(#[doc = $words] $name,)*
        }

        impl Bug {
            /// Every fault that can be planted.
            pub const ALL: &'static [Bug] = &[$(Bug::$name),*];

            /// Returns what is wrong, for people.
            pub const fn words(self) -> &'static str {
                match self {
                    $(Bug::$name => $words,)*
                }
            }
        }
    };
}

bugs! {
    GatewayRefuses: "a 502 or 504 counts as refused";
    UnavailableRefuses: "a 503 counts as refused whatever the profile says";
    FailureRefuses: "a 500 counts as refused";
    ConflictRejects: "a 409 or 412 counts as rejected";
    CutConfirms: "a 2xx whose body was cut counts as done";
    LoginPageConfirms: "an HTML page counts as done";
    ProxyStatusUnasked: "Proxy-Status is believed though the profile does not trust it";
    EveryReportProves: "every error in Proxy-Status proves that nothing was forwarded";
    CrossingForgotten: "a redirect to another origin takes the credentials along";
    OddSuccessConfirms: "the success rule of the profile is not looked at";
    RedirectConfirms: "a 301, 302 or 303 counts as done";
    PartIsNothing: "a request that left in part counts as not sent";
    AlertRefuses: "any TLS alert counts as a refusal of our certificate";
    HopsForEver: "redirects are followed without end";
    RetryAfterUnread: "Retry-After is not read";
    RefusalEndsDoubt: "a refusal after doubt ends the doubt";
    RejectionEndsDoubt: "a 4xx after doubt counts as rejected";
    OneAbsenceProves: "one absent answer proves absence, however early";
    ControlUnneeded: "an absence by status alone needs no control";
    CacheBelieved: "a cached absence counts";
    OthersResource: "somebody else's resource confirms ours";
    KeyForEver: "the key protects past its retention";
    ClockBelieved: "a stepped clock is trusted";
    OrphanIsFresh: "an attempt in flight when its process died is forgotten";
    RebootLosesNothing: "a power cut is taken for a kill";
    FloorForgottenByRun: "a new run forgets the Retry-After of the one before";
    BlindResend: "what is in doubt is sent again without protection";
    WaitCutShort: "a wait that does not fit is cut to fit";
    DeadlineUnheeded: "an attempt may take longer than is left";
    WaitsConfused: "a wait for a status request counts as the wait before an attempt";
    NoSettleForKey: "the same key does not wait for the partner to settle";
    AttemptsUncounted: "attempts are not limited";
    RetryAfterClamped: "a Retry-After above a minute is cut to a minute";
    ExpiredIsSent: "valid_until is not looked at";
    PinForgotten: "after doubt the address changes";
    SafeInDoubt: "a safe method can be in doubt";
    NumbersStartAgain: "a new run counts its attempts from 1 again";
    IntentUnsynced: "the first byte leaves before the claim is durable";
    OutcomeUnsynced: "the verdict is told before it is durable";
    SignalUnheeded: "a signal ends nothing";
    MoveUnsynced: "a move to another address is not durable";
    AskingForgotten: "a replay sends without asking first";
    RefusedTriedAgain: "what was refused is tried again by whoever comes";
    ReturnForgotten: "a batch does not wait for the time that the run before gave";
    DistantIsDue: "a batch takes up what is to be waited for longer than a run lasts";
    ForgottenKeyIsDue: "a batch takes up what is past its key's retention";
    LaterWriteUndone: "a batch undoes a later write";
    AcceptedForAll: "accepting a duplicate counts for every attempt of a run";
    DoubtStartsAgain: "the age of a doubt counts from the newest run";
    LateFailureClears: "the last word of an owner that was fenced off takes the doubt away";
    LateSuccessUnheard: "a success that an owner wrote after it was fenced off does not count";
    LateEndMovesReturn: "an owner that was fenced off moves the time to come back";
    WordAgainstProof: "a person's word is taken against proof";
    WordUnheard: "a person's `confirmed` does not end an operation";
    WordLeavesDoubt: "a person's `not_done` leaves the doubt";
}

#[cfg(feature = "seeded-bugs")]
mod planting {
    use super::Bug;
    use std::cell::Cell;

    thread_local! {
        static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
    }

    /// Plants a fault in everything that this thread does from now on; `None` pulls it out.
    pub fn plant(bug: Option<Bug>) {
        PLANTED.set(bug);
    }

    /// Returns whether a fault is planted in this thread.
    pub fn planted(bug: Bug) -> bool {
        PLANTED.get() == Some(bug)
    }
}

#[cfg(feature = "seeded-bugs")]
pub use planting::{plant, planted};

/// Returns whether a fault is planted: never, in what is built for use.
#[cfg(not(feature = "seeded-bugs"))]
#[inline(always)]
pub const fn planted(_: Bug) -> bool {
    false
}
