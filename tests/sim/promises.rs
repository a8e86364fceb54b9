//! What must hold, whatever the weather. The first broken promise of a story is kept.

use crate::case::ORIGIN;
use crate::watch::{Broken, Floor, Said, Send, Told};
use crate::world::World;
use abide::drive::{Call, Ended};
use abide::engine::backoff::Jitter;
use abide::engine::facts::{About, Fact, Finished, Recorded, Says, Settled};
use abide::engine::location;
use abide::engine::verdict::{Evidence, Verdict};
use std::sync::Arc;
use std::time::Duration;

/// Writing and syncing take time of their own, after the decision and before the send.
const WRITING: Duration = Duration::from_millis(20);
/// Persisted times are whole milliseconds, rounded down.
const ROUNDING: Duration = Duration::from_millis(1);

impl World {
    /// Breaks a promise.
    pub fn broke(&mut self, promise: &'static str, how: impl FnOnce() -> String) {
        if self.watch.broken.is_none() {
            let how = how();
            self.note(|| format!("BROKEN: {promise}: {how}"));
            self.watch.broken = Some(Broken { promise, how });
        }
    }

    /// Checks and notes a send at the moment at which bytes may leave. Returns its number over the story.
    pub fn watch_send(&mut self, who: usize, call: &Call<'_>) -> usize {
        let process = self.processes[who].clone();
        let place = self.book.place(&call.operation.key);
        let claim = self.book.entry(place).history.newest_claim();
        self.note(|| format!("process {} sends attempt {} {:?}", process.id, call.a, call.limits));
        self.processes[who].sent += 1;
        self.watch_intent(place, claim, call);
        self.watch_leave(who, place, call);
        self.watch_return(who);
        self.watch_bytes(place, call);
        self.watch_time(who, call.limits.whole, "an attempt");
        if call.limits.whole + WRITING < self.case.policy.min_attempt {
            self.broke("no attempt without a chance", || format!("{:?} left", call.limits.whole));
        }
        if process.interrupted {
            self.broke("after a signal nothing new starts", || format!("attempt {}", call.a));
        }
        if process.write_failed {
            self.broke("nothing is sent after a failed write", || format!("attempt {}", call.a));
        }
        let valid_until = self.book.entry(place).history.opened().valid_until;
        let wall = self.wall();
        if valid_until.is_some_and(|until| wall >= until) {
            self.broke("nothing is sent after valid_until", || format!("at {wall}"));
        }
        self.watch_floors(process.id, true);
        self.watch_backoff(who, place, claim, call.hop.is_some());
        let elsewhere = call.hop.is_some_and(|hop| location::origin(hop) != location::origin(ORIGIN));
        if elsewhere && !call.crossed {
            self.broke("credentials stay with their origin", || format!("attempt {}", call.a));
        }
        let send = Send {
            process: process.id,
            place,
            a: call.a,
            began: self.now,
            ended: None,
            is_hop: call.hop.is_some(),
            ambiguous: true,
            accepted: false,
            fine: false,
            contradicts_absence: false,
        };
        self.watch.sends.push(send);
        self.watch_count(process.id);
        self.watch.sends.len() - 1
    }

    /// The claim and its first `started` are durable, the attempt's own is written, and nothing is settled.
    fn watch_intent(&mut self, place: usize, claim: u64, call: &Call<'_>) {
        let book = &self.book;
        let of_claim = |recorded: &Recorded| recorded.n == claim;
        let begun = book.find(place, |recorded| of_claim(recorded) && recorded.fact.is_claim());
        let first = book.find(place, |recorded| of_claim(recorded) && matches!(recorded.fact, Fact::Started(_)));
        let own = matches!(book.entry(place).history.facts.last(), Some(Recorded { fact: Fact::Started(started), .. }) if started.a == call.a);
        let durable = |fact: Option<usize>| fact.is_some_and(|fact| book.is_durable(place, fact));
        let is_start = |recorded: &&Recorded| matches!(recorded.fact, Fact::Started(_));
        let mut starts = book.entry(place).history.facts.iter().rev().filter(is_start).map(|recorded| &recorded.fact);
        let moved = matches!((starts.next(), starts.next()), (Some(Fact::Started(own)), Some(Fact::Started(before))) if own.addr != before.addr);
        let last = book.entry(place).history.facts.len() - 1;
        let safe = self.case.policy.method.is_safe();
        if moved && !safe && !durable(Some(last)) {
            self.broke("a move to another address is durable", || format!("attempt {}", call.a));
            return;
        }
        if !own || !(safe || durable(begun) && durable(first)) {
            self.broke("nothing is sent before its intent is durable", || format!("attempt {}", call.a));
        }
        let settled = |recorded: &Recorded| of_claim(recorded) && matches!(recorded.fact, Fact::Settled(_));
        if self.book.find(place, settled).is_some() {
            self.broke("a settled operation stays settled", || format!("attempt {}", call.a));
        }
    }

    fn watch_bytes(&mut self, place: usize, call: &Call<'_>) {
        let request = &call.operation.request;
        let same = match &self.watch.first {
            Some((first_place, first)) if *first_place == place => {
                let same_headers =
                    first.headers.iter().zip(&request.headers).all(|(one, other)| {
                        one.name == other.name && one.value.sent.expose() == other.value.sent.expose()
                    });
                Arc::ptr_eq(first, request)
                    || same_headers && first.body == request.body && first.headers.len() == request.headers.len()
            }
            _ => {
                self.watch.first = Some((place, Arc::clone(request)));
                true
            }
        };
        let key = &call.operation.key;
        let carried = request.headers.iter().any(|header| header.value.sent.expose() == key.as_str());
        if !same || !carried {
            self.broke("the key and the bytes are the same over all attempts", || format!("{key}"));
        }
    }

    /// Checks that something that may take `limit` ends before the deadline.
    pub fn watch_time(&mut self, who: usize, limit: Duration, what: &'static str) {
        let process = &self.processes[who];
        let (now, last) = (self.now, process.deadline.after(process.slept));
        if now.after(limit) > last.after(WRITING) {
            self.broke("the deadline is never overshot", || {
                format!("{what} may take {limit:?}, {:?} are left", last.since(now))
            });
        }
    }

    /// Checks that no Retry-After is undercut: of any earlier answer for an attempt, of status answers for a question.
    pub fn watch_floors(&mut self, process: u32, attempt: bool) {
        let (now, stepped) = (self.now, self.stepped);
        let is_fenced = self.is_fenced(process);
        let holds = |floor: &&Floor| {
            let seen_here = floor.process == process;
            // What a later claim was told, an owner that is fenced off does not know.
            let told_truly = !is_fenced && stepped.is_none_or(|stepped| stepped < floor.born);
            (attempt || !floor.for_attempts) && (seen_here || told_truly)
        };
        let floor = self.watch.floors.iter().filter(holds).map(|floor| floor.until).max();
        if let Some(floor) = floor.filter(|floor| now.after(ROUNDING) < *floor) {
            self.broke("Retry-After is never undercut", || format!("{:?} too early", floor.since(now)));
        }
    }

    fn watch_backoff(&mut self, who: usize, place: usize, claim: u64, is_hop: bool) {
        let facts = &self.book.entry(place).history.facts;
        let run = || facts.iter().filter(|recorded| recorded.n == claim).map(|recorded| &recorded.fact);
        // Once absence is proven, the next attempt is as good as the first.
        let absent = run().any(|fact| matches!(fact, Fact::Asked(asked) if asked.says == Says::Absent));
        let attempts = run().filter(|fact| matches!(fact, Fact::Finished(finished) if finished.hop.is_none())).count();
        let Some((of, ended)) = self.watch.last_finished else { return };
        if is_hop || absent || of != claim || attempts == 0 {
            return;
        }
        let mut backoff = self.case.policy.retry.backoff;
        if self.processes[who].errand.is_replay() {
            backoff.jitter = Jitter::Full;
        }
        let least = backoff.after(u32::try_from(attempts).expect("few attempts"), 0.0);
        let waited = self.now.since(ended);
        if waited + ROUNDING < least {
            self.broke("the back-off is never shortened", || format!("{waited:?} instead of {least:?}"));
        }
    }

    fn watch_count(&mut self, process: u32) {
        let of_run = |send: &&Send| send.process == process;
        let attempts = self.watch.sends.iter().filter(of_run).filter(|send| !send.is_hop).count();
        let hops = self.watch.sends.iter().rev().take_while(|send| send.is_hop).count();
        let allowed = usize::try_from(self.case.policy.retry.max_attempts).expect("few attempts");
        let most = if self.case.policy.method.is_safe() { 10 } else { 3 };
        if attempts > allowed || hops > most {
            self.broke("no more attempts than allowed", || format!("{attempts} of {allowed}, {hops} hops"));
        }
    }

    /// Checks and notes a line that is being written.
    pub fn watch_line(&mut self, process: u32, place: usize, n: u64, fact: &Fact, line: u64) {
        self.note(|| format!("process {process} writes {}", shown(fact)));
        let facts = &self.book.entry(place).history.facts;
        let earlier = &facts[..facts.len() - 1];
        let over = |recorded: &Recorded| recorded.n == n && matches!(recorded.fact, Fact::Settled(_));
        let so_far = || earlier.iter().filter_map(attempt_of).max().unwrap_or(0);
        let so_far = if matches!(fact, Fact::Started(_)) { so_far() } else { 0 };
        if earlier.iter().any(over) {
            self.broke("a run settles exactly once", || format!("{} after settled", fact.name()));
        }
        match fact {
            Fact::Started(started) if started.a != so_far + 1 => {
                self.broke("attempts are counted without gaps", || format!("{} after {so_far}", started.a));
            }
            Fact::Finished(finished) => self.watch_evidence(process, place, finished, line),
            Fact::Settled(settled) => self.watch_settled(process, place, n, settled, line),
            Fact::Asked(asked) => {
                self.remember_floor(process, line, false);
                if asked.about == About::Operation && asked.says == Says::Rejected {
                    self.watch.nothing_happened();
                }
            }
            Fact::Opened(_) => self.watch_opened(process),
            Fact::Reopened(_) => self.watch_reopened(process, place),
            _ => {}
        }
    }

    fn watch_settled(&mut self, process: u32, place: usize, n: u64, settled: &Settled, line: u64) {
        if let Some(last) = &settled.last {
            self.watch_evidence(process, place, last, line);
        }
        let late = (n < self.book.entry(place).history.newest_claim()).then_some(process);
        let said = Said { verdict: settled.verdict, at: self.now, sends: self.watch.sends.len(), late };
        self.watch.said.push(said);
        if late.is_none() && matches!(settled.verdict, Verdict::NotDone | Verdict::Rejected) {
            self.watch.nothing_happened();
        }
    }

    fn watch_evidence(&mut self, process: u32, place: usize, finished: &Finished, line: u64) {
        self.remember_floor(process, line, true);
        let sent = |send: &Send| send.process == process && send.place == place && send.a == finished.a;
        match self.watch.sends.iter().rposition(sent) {
            Some(send) => {
                self.watch.told.push(Told { send, evidence: finished.evidence, done: finished.done, line });
            }
            None if finished.evidence != Evidence::NotSent => {
                self.broke("evidence needs a send", || format!("attempt {} is {}", finished.a, finished.evidence));
            }
            None => {}
        }
    }

    fn remember_floor(&mut self, process: u32, line: u64, for_attempts: bool) {
        let born = self.now;
        let Some(writer) = self.processes.iter_mut().find(|known| known.id == process) else { return };
        if let Some((until, _)) = writer.seen_floor.take_if(|(_, by_attempt)| *by_attempt == for_attempts) {
            self.watch.floors.push(Floor { until, born, process, line, for_attempts });
        }
    }

    /// Checks what a run that ended tells its user.
    pub fn watch_end(&mut self, who: usize, place: usize, n: u64, ended: &Ended) {
        let process = self.processes[who].clone();
        let verdict = ended.settled.verdict;
        self.note(|| format!("process {} ends: {verdict} {:?}", process.id, ended.settled.cause));
        let settled = |recorded: &Recorded| {
            recorded.n == n && matches!(&recorded.fact, Fact::Settled(settled) if *settled == ended.settled)
        };
        let written = self.book.find(place, settled).filter(|fact| self.book.is_durable(place, *fact));
        if written.is_none() {
            self.broke("an outcome is durable before it is told", || format!("{verdict} of claim {n}"));
        }
        if self.now > process.deadline.after(process.slept).after(WRITING) {
            let late = self.now.since(process.deadline);
            self.broke("the deadline is never overshot", || format!("the run ends {late:?} late"));
        }
        if verdict == Verdict::InDoubt && self.case.policy.method.is_safe() {
            self.broke("a safe method is never in doubt", String::new);
        }
        let sends = &self.watch.sends[self.watch.cleared..];
        let doubtful = self.watch.lost || sends.iter().any(|send| send.ambiguous);
        let accepted = self.watch.lost || self.watch.saw_progress || sends.iter().any(|send| send.accepted);
        if verdict == Verdict::InDoubt && !doubtful {
            self.broke("there is no doubt without a cause", String::new);
        }
        if verdict == Verdict::Accepted && !accepted {
            self.broke("nothing is accepted that nobody took", String::new);
        }
    }

    /// Compares everything that was told with what the partner did, when nothing is under way any more.
    pub fn watch_truth(&mut self) {
        let done = self.partner.executions.len();
        let allowed = 1 + self.watch.granted;
        if self.case.counts_executions() && done > allowed {
            self.broke("it happens at most once", || format!("{done} executions, {allowed} allowed"));
        }
        let safe = self.case.policy.method.is_safe();
        for said in std::mem::take(&mut self.watch.said) {
            let before = |execution: &crate::partner::Execution| execution.at <= said.at;
            let happened = self.partner.executions.iter().any(before)
                || safe && self.watch.sends[..said.sends].iter().any(|send| send.fine);
            match said.verdict {
                Verdict::Confirmed if !happened => {
                    self.broke("confirmed means that it happened", || "nothing was executed".into());
                }
                Verdict::Rejected | Verdict::NotDone if self.was_executed(&said) => {
                    self.broke("rejected and not_done mean that it never happens", || format!("{}", said.verdict));
                }
                _ => {}
            }
        }
        for told in std::mem::take(&mut self.watch.told) {
            let executed = self.partner.executions.iter().any(|execution| execution.send == told.send);
            let denied = matches!(told.evidence, Evidence::NotSent | Evidence::Refused) || told.done == Some(false);
            if executed && denied {
                self.broke("evidence never denies an execution", || format!("send {} {}", told.send, told.evidence));
            }
            if told.done == Some(true) && !safe && self.partner.executions.is_empty() {
                self.broke("evidence never invents an execution", || format!("send {}", told.send));
            }
        }
    }
}

impl World {
    /// Returns whether something was executed that a run speaks of at its end.
    fn was_executed(&self, said: &Said) -> bool {
        let sends = self.watch.sends[..said.sends].iter();
        let meant = |send: &Send| said.late.is_none_or(|process| send.process == process);
        sends.enumerate().any(|(index, send)| meant(send) && self.partner.has_executed(index))
    }
}

fn attempt_of(recorded: &Recorded) -> Option<u32> {
    match &recorded.fact {
        Fact::Started(started) => Some(started.a),
        Fact::Finished(finished) => Some(finished.a),
        Fact::Settled(settled) => settled.last.as_ref().map(|last| last.a),
        _ => None,
    }
}

/// Returns a fact as the story shows it.
fn shown(fact: &Fact) -> String {
    match fact {
        Fact::Finished(finished) => {
            format!(
                "finished {} {} {:?} {} {:?}",
                finished.a, finished.evidence, finished.done, finished.reason, finished.again
            )
        }
        Fact::Asked(asked) => format!("asked {:?} {:?}", asked.about, asked.says),
        Fact::Settled(settled) => {
            format!("settled {} {:?} retry at {:?}", settled.verdict, settled.cause, settled.retry_at)
        }
        Fact::Reopened(reopened) => format!("reopened after {:?}", reopened.predecessor),
        Fact::Waiting(waiting) => format!("waiting {:?} until {}", waiting.reason, waiting.until),
        fact => fact.name().into(),
    }
}
