use super::*;
use crate::engine::facts::{Again, Asked, Resolved, Started, Why};
use crate::engine::operation::PartnerName;
use crate::engine::story::{Story, finished, policy};
use Verdict::{Accepted, Confirmed, InDoubt, NotDone, Rejected};
use std::sync::Arc;

fn story() -> Story {
    Story::new(policy("POST"))
}

fn started(story: Story) -> Story {
    let a = story.history.last_attempt() + 1;
    story.with(1.0, Fact::Started(Started { a, addr: None, proxy: None }))
}

fn answered(story: Story, done: bool) -> Story {
    story.attempt(1.0, Evidence::Answered, Again::No).change(|finished| finished.done = Some(done))
}

fn says(story: Story, says: Says, about: About) -> Story {
    story.with(2.0, Fact::Asked(Asked { says, about, by_body: true, http: None, ms: 1, not_before: None, note: None }))
}

fn settled(story: Story, verdict: Verdict, cause: Cause) -> Story {
    story.with(3.0, Fact::Settled(Arc::new(Settled { verdict, cause, retry_at: None, last: None, response: None })))
}

fn resolved(mut story: Story, verdict: Verdict) -> Story {
    story.n += 1;
    let partner = PartnerName::new("a").expect("a name");
    story.with(4.0, Fact::Resolved(Arc::new(Resolved { partner, verdict, by: "ann".into(), note: "asked".into() })))
}

fn doubtful() -> Story {
    story().attempt(1.0, Evidence::InDoubt, Again::Yes)
}

fn ruled(story: &Story, standing: Standing) -> [Ruling; 3] {
    [Confirmed, Rejected, NotDone].map(|word| rule(Known { history: &story.history, standing }, word))
}

const FREE: [Ruling; 3] = [Ruling::Record; 3];
const ENDED: Standing = Standing::Settled;

#[test]
fn what_is_in_doubt_is_free_to_decide() {
    let stories = [
        story(),
        started(story()),
        doubtful(),
        settled(doubtful(), InDoubt, Cause::NothingHelps),
        settled(story().attempt(1.0, Evidence::Accepted, Again::No), Accepted, Cause::Answer),
        settled(story().attempt(1.0, Evidence::NotSent, Again::Yes), NotDone, Cause::AttemptsExhausted),
        says(doubtful(), Says::Absent, About::Operation),
        says(doubtful(), Says::Confirmed, About::Control),
        says(doubtful(), Says::Rejected, About::Control),
        // A refusal after a doubt says nothing of the first attempt; nor does one while another attempt is open.
        answered(doubtful(), false),
        answered(started(story()), false),
        // A later run whose owner died.
        answered(story(), false).next_run(9.0, Why::Replay, None),
    ];
    for story in stories {
        for standing in [ENDED, Standing::DeadSameBoot, Standing::DeadElsewhere] {
            assert_eq!(ruled(&story, standing), FREE, "{:?}", story.history);
        }
    }
}

#[test]
fn what_happened_can_only_be_confirmed() {
    let against = Ruling::Against(Confirmed);
    let proofs = [
        answered(story(), true),
        answered(doubtful(), true),
        says(doubtful(), Says::Confirmed, About::Operation),
        // Settled, then called not done in spite of it, which older versions may have let pass.
        resolved(settled(story(), Confirmed, Cause::Answer), NotDone),
    ];
    for story in proofs {
        assert_eq!(ruled(&story, Standing::DeadSameBoot)[1..], [against; 2]);
    }
    let unsaid = answered(story(), true);
    assert_eq!(ruled(&unsaid, Standing::DeadSameBoot)[0], Ruling::Record, "nobody settled it");
    let told = settled(unsaid, Confirmed, Cause::Answer);
    assert_eq!(ruled(&told, ENDED), [Ruling::Already, against, against]);
}

#[test]
fn a_late_outcome_of_an_older_claim_is_proof() {
    let mut late = resolved(settled(doubtful(), InDoubt, Cause::Deadline), NotDone);
    late.n = 1;
    let last = Finished { done: Some(true), ..finished(2, Evidence::Answered, Again::No) };
    let (verdict, cause) = (Confirmed, Cause::Answer);
    let end = Settled { verdict, cause, retry_at: None, last: Some(Arc::new(last)), response: None };
    late.push(9.0, Fact::Settled(Arc::new(end)));
    assert_eq!(proven(&late.history), Some(Confirmed));
}

#[test]
fn what_was_refused_cannot_be_confirmed() {
    let stories = [
        answered(story(), false),
        settled(answered(story(), false), Rejected, Cause::Answer),
        says(doubtful(), Says::Rejected, About::Operation),
        answered(doubtful(), false).change(|finished| finished.replayed = true),
        // Proven not done in between: what follows is judged anew.
        answered(settled(doubtful(), NotDone, Cause::Status), false),
    ];
    for story in stories {
        let [confirmed, _, not_done] = ruled(&story, ENDED);
        assert_eq!((confirmed, not_done), (Ruling::Against(Rejected), Ruling::Record), "{:?}", story.history);
    }
    let told = settled(answered(story(), false), Rejected, Cause::Answer);
    assert_eq!(ruled(&told, ENDED)[1], Ruling::Already);
}

#[test]
fn what_a_person_said_may_be_changed_by_a_person() {
    for first in [Confirmed, Rejected, NotDone] {
        assert_eq!(ruled(&resolved(doubtful(), first), ENDED), FREE, "{first}");
    }
    // What a run concludes after a person has removed the doubt rests on that word.
    let mut after = resolved(doubtful(), NotDone).next_run(5.0, Why::Replay, None);
    after.history.facts.retain(|recorded| !matches!(&recorded.fact, Fact::Reopened(_)));
    let after = settled(answered(after, false), Rejected, Cause::Answer);
    assert_eq!(proven(&after.history), None);
    assert_eq!(proven(&says(after, Says::Rejected, About::Operation).history), Some(Rejected));
}

#[test]
fn a_live_owner_is_waited_for_unless_proof_refuses_anyway() {
    assert_eq!(ruled(&doubtful(), Standing::Live), [Ruling::Busy; 3]);
    let against = Ruling::Against(Confirmed);
    assert_eq!(ruled(&answered(story(), true), Standing::Live), [Ruling::Busy, against, against]);
}

#[test]
#[should_panic(expected = "decides nothing")]
fn nobody_decides_a_doubt() {
    rule(Known { history: &story().history, standing: ENDED }, InDoubt);
}
