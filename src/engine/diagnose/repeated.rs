//! Several probes of one partner, one after the other because the one before failed.

use super::code::Code;
use super::judgement::{Confidence, Standing};
use super::{Blemish, Diagnosis};
use crate::engine::verdict::Side;

/// Returns what attempts come to, of which every one but the last failed; `None` without one.
///
/// The last one decides. Where it found the partner usable, that the ones before failed is a degradation; a verdict
/// that changed otherwise is told beside the last.
pub fn repeated(attempts: Vec<Diagnosis>) -> Option<Diagnosis> {
    let told: Vec<String> = attempts.iter().enumerate().map(|(at, found)| told(at + 1, found)).collect();
    let mut attempts = attempts;
    let last = attempts.pop()?;
    let is_same = |found: &Diagnosis| (found.side, found.code) == (last.side, last.code);
    let Some(other) = attempts.iter().find(|found| !is_same(found)) else { return Some(last) };
    let side = other.side.unwrap_or(Side::Unclear);
    if last.standing == Standing::Usable {
        return Some(Diagnosis {
            side: Some(side),
            code: Code::Intermittent,
            confidence: Confidence::Medium,
            standing: Standing::Degraded,
            because: [told, last.because].concat(),
            next: vec![Code::Intermittent.next().to_owned()],
            leaves_doubt: attempts.iter().any(|found| found.leaves_doubt),
            ..last
        });
    }
    let changed = Blemish { code: other.code, side, because: told };
    Some(Diagnosis { also: [last.also, vec![changed]].concat(), ..last })
}

/// Returns one attempt in words; `at` counts from 1.
fn told(at: usize, found: &Diagnosis) -> String {
    format!("attempt {at}: {} {}", found.side_name(), found.code)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(side: Option<Side>, code: Code, standing: Standing) -> Diagnosis {
        Diagnosis {
            side,
            code,
            confidence: Confidence::High,
            standing,
            because: vec!["a reason".into()],
            not: Vec::new(),
            next: vec!["a step".into()],
            also: Vec::new(),
            wait: None,
            leaves_doubt: code == Code::AppReset,
        }
    }

    fn reset() -> Diagnosis {
        found(Some(Side::Theirs), Code::AppReset, Standing::Unusable)
    }

    #[test]
    fn attempts_that_agree_are_told_as_one() {
        assert_eq!(repeated(vec![]), None);
        assert_eq!(repeated(vec![reset()]), Some(reset()));
        assert_eq!(repeated(vec![reset(), reset()]), Some(reset()));
    }

    #[test]
    fn a_partner_that_works_in_the_end_is_degraded_by_what_came_before() {
        let last = repeated(vec![reset(), found(None, Code::Ok, Standing::Usable)]).expect("attempts");
        assert_eq!((last.code, last.side, last.standing), (Code::Intermittent, Some(Side::Theirs), Standing::Degraded));
        assert_eq!(last.because, ["attempt 1: theirs app.reset", "attempt 2: ok ok", "a reason"]);
        assert!(last.leaves_doubt && last.not.is_empty());
    }

    #[test]
    fn failures_of_different_kinds_are_told_beside_the_last() {
        let silent = found(Some(Side::Network), Code::Filtered, Standing::Unusable);
        let last = repeated(vec![silent, reset()]).expect("attempts");
        assert_eq!((last.code, last.standing), (Code::AppReset, Standing::Unusable));
        let told: Vec<_> = last.also.iter().map(|also| (also.code, also.side)).collect();
        assert_eq!(told, [(Code::Filtered, Side::Network)]);
    }
}
