//! What became of samples that the partner executes.

use abide::engine::suggest::executions::Executions;
use serde_json::{Value, json};

/// Returns it in words: `8 requests, recorded nowhere. Executed: 7 confirmed. Not executed: 1 rejected`.
pub fn words(executions: &Executions) -> String {
    let Executions { confirmed, accepted, rejected, not_done, in_doubt, unanswered } = *executions;
    let some = |counts: &[(u64, &str)]| {
        let some = counts.iter().filter(|(count, _)| *count > 0);
        some.map(|(count, what)| format!("{count} {what}")).collect::<Vec<_>>().join(", ")
    };
    let some_silent = format!("in doubt, {unanswered} of them without an answer");
    let doubt = match unanswered {
        0 => "in doubt",
        all if all == in_doubt => "in doubt, without an answer",
        _ => &some_silent,
    };
    let groups = [
        ("Executed", some(&[(confirmed, "confirmed")])),
        ("Not finished", some(&[(accepted, "accepted")])),
        ("Perhaps executed", some(&[(in_doubt, doubt)])),
        ("Not executed", some(&[(rejected, "rejected"), (not_done, "not done")])),
    ];
    let groups = groups.iter().filter(|(_, counts)| !counts.is_empty());
    let requests = match executions.all() {
        1 => "1 request".into(),
        requests => format!("{requests} requests"),
    };
    let head = format!("{requests}, recorded nowhere");
    std::iter::once(head).chain(groups.map(|(what, counts)| format!("{what}: {counts}"))).collect::<Vec<_>>().join(". ")
}

pub(super) fn document(executions: &Executions) -> Value {
    let Executions { confirmed, accepted, rejected, not_done, in_doubt, unanswered } = *executions;
    json!({
        "requests": executions.all(),
        "confirmed": confirmed,
        "accepted": accepted,
        "rejected": rejected,
        "not_done": not_done,
        "in_doubt": in_doubt,
        "unanswered": unanswered,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_executed_and_what_perhaps_was_are_told_apart() {
        let none = Executions::default();
        assert_eq!(words(&none), "0 requests, recorded nowhere");
        let one = Executions { confirmed: 1, ..none };
        assert_eq!(words(&one), "1 request, recorded nowhere. Executed: 1 confirmed");
        let all = Executions { confirmed: 9, accepted: 2, rejected: 1, not_done: 3, in_doubt: 4, unanswered: 2 };
        assert_eq!(
            words(&all),
            "19 requests, recorded nowhere. Executed: 9 confirmed. Not finished: 2 accepted. \
             Perhaps executed: 4 in doubt, 2 of them without an answer. Not executed: 1 rejected, 3 not done"
        );
        let silent = Executions { in_doubt: 5, unanswered: 5, ..none };
        assert_eq!(words(&silent), "5 requests, recorded nowhere. Perhaps executed: 5 in doubt, without an answer");
        let answered = Executions { in_doubt: 1, ..none };
        assert_eq!(words(&answered), "1 request, recorded nowhere. Perhaps executed: 1 in doubt");
    }
}
