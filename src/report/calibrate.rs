//! What a calibration found: the same facts as a picture for a terminal, a page, and one document for machines.

mod axis;
mod compared;
mod curve;
mod drawing;
pub mod executions;
mod hours;
mod json;
mod ladder;
mod lines;
mod overlay;
mod page;
mod text;

pub use compared::{Compared, Moved};
pub use json::{Planned, document};
pub use page::{BEGINNING, page};
pub use text::text;

use abide::engine::suggest::Suggestion;
use abide::engine::suggest::closed::BackFilled;
use abide::engine::suggest::evidence::Evidence;
use abide::engine::suggest::executions::Executions;
use abide::engine::suggest::refusal::Refusal;
use abide::engine::suggest::seen::Seen;
use abide::engine::suggest::share::Share;
use std::time::Duration;

/// The percentiles that are always shown, beside the one that was asked for.
const SHOWN: [u32; 3] = [500_000, 950_000, 990_000];

/// What a calibration found.
#[derive(Debug)]
pub struct Calibrated<'a> {
    /// What was measured, secrets masked: `GET http://api.example/ping`.
    pub subject: &'a str,
    /// When, in local time: `10:00:00 to 10:05:00`; `None` where that is not known.
    pub when: Option<&'a str>,
    /// How long an answer was waited for; `None` where that is not known.
    pub waited: Option<Duration>,
    /// What was seen.
    pub seen: &'a Seen,
    /// What became of samples that the partner executes; `None`: there were none.
    pub executions: Option<&'a Executions>,
    /// The percentile that was asked for.
    pub percentile: Share,
    /// What is suggested, or why nothing is.
    pub result: Result<&'a Suggestion, &'a [Refusal]>,
    /// Why the run ended before its time.
    pub stopped: Option<&'a str>,
    /// A closed loop with what a stall kept from being sent.
    pub filled: Option<&'a BackFilled>,
    /// What changed since an earlier measurement.
    pub compared: Option<&'a Compared>,
}

impl Calibrated<'_> {
    /// Returns the percentiles to show, in order.
    fn percentiles(&self) -> Vec<Share> {
        let mut shares: Vec<Share> = SHOWN.into_iter().filter_map(Share::from_millionths).collect();
        shares.push(self.percentile);
        shares.sort();
        shares.dedup();
        shares
    }

    fn evidence(&self) -> Evidence {
        Evidence::new(&self.seen.read, &self.seen.minutes)
    }

    /// Tells whether the suggestion is to be read as "at least".
    fn is_thin(&self) -> bool {
        self.result.is_ok_and(|suggestion| !suggestion.weaknesses.is_empty())
    }
}
