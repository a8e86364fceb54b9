//! What was asked about an operation since its last attempt.

use crate::engine::facts::Says;
use crate::engine::moment::Moment;
use crate::engine::planted::{Bug, planted};

/// What was asked since the last attempt.
#[derive(Clone, Copy, Debug, Default)]
pub struct Questions {
    /// How many about the operation itself.
    pub count: u32,
    /// When the last one ended.
    pub last_at: Option<Moment>,
    /// What the last one about the operation said.
    pub says: Option<Says>,
    /// A control has answered "confirmed" in this run.
    pub control_ok: bool,
    /// The control was asked after the last absent answer.
    pub control_asked: bool,
    /// The first and the last answer "absent" by whatever rule.
    pub(super) absent: Option<(Moment, Moment)>,
    /// The first and the last answer "absent" by a rule on the body.
    pub(super) absent_by_body: Option<(Moment, Moment)>,
}

impl Questions {
    /// Returns the first and the last absent answer that counts as one: by a rule on the body, or with a control that
    /// was found in this run.
    pub fn absences(&self) -> Option<(Moment, Moment)> {
        if self.control_ok || planted(Bug::ControlUnneeded) { self.absent } else { self.absent_by_body }
    }

    /// Returns whether only a control is missing for the last absent answer to count.
    pub fn needs_control(&self) -> bool {
        self.says == Some(Says::Absent) && !self.control_ok && self.absent != self.absent_by_body && !self.control_asked
    }
}
