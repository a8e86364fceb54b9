//! What becomes of a request: drawn when it leaves, true to what the profile states.

use crate::case::Keys;
use crate::partner::{Body, Came, Request, Will};
use crate::wire::{ADDRESSES, answer, patience, unanswered, with};
use crate::world::World;
use abide::drive::Call;
use abide::engine::exchange::{Answer, Distrust, Ending, Fault, Limit, Outcome, Sent, Stage};
use abide::engine::moment::Moment;
use std::time::{Duration, SystemTime};

/// What is seen of an exchange, and when.
#[derive(Debug)]
pub struct Plan {
    /// When it ends.
    pub ends: Moment,
    /// What is seen.
    pub outcome: Outcome,
    /// Whether that leaves open if the request was executed.
    pub ambiguous: bool,
    /// Whether it says that the partner works on it.
    pub accepted: bool,
    /// Whether it is a genuine success.
    pub fine: bool,
    /// What the partner asks us to wait.
    pub floor: Option<Duration>,
}

impl Plan {
    /// Returns a plan that leaves nothing open.
    pub fn certain(ends: Moment, outcome: Outcome) -> Plan {
        Plan { ends, outcome, ambiguous: false, accepted: false, fine: false, floor: None }
    }

    fn open(ends: Moment, outcome: Outcome) -> Plan {
        Plan { ambiguous: true, ..Plan::certain(ends, outcome) }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Fine,
    Slow,
    NoConnection,
    SentInPart,
    AnswerLost,
    ExecutedLate,
    Swallowed,
    GatewayFails,
    NeverForwarded,
    RateLimited,
    Unauthorized,
    Unavailable,
    RejectedForGood,
    Conflict,
    AnswerCut,
    LoginPage,
    OddSuccess,
    SeeOther,
    MovedHere,
    MovedElsewhere,
    NoHttp,
    Accepted,
    AcceptedThenRejected,
    OwnFailure,
    Misdirected,
}

const BAD_FATES: [Fate; 28] = [
    Fate::Slow,
    Fate::NoConnection,
    Fate::NoConnection,
    Fate::SentInPart,
    Fate::AnswerLost,
    Fate::AnswerLost,
    Fate::ExecutedLate,
    Fate::ExecutedLate,
    Fate::Swallowed,
    Fate::GatewayFails,
    Fate::NeverForwarded,
    Fate::RateLimited,
    Fate::RateLimited,
    Fate::Unauthorized,
    Fate::Unavailable,
    Fate::RejectedForGood,
    Fate::Conflict,
    Fate::AnswerCut,
    Fate::LoginPage,
    Fate::OddSuccess,
    Fate::SeeOther,
    Fate::MovedHere,
    Fate::MovedElsewhere,
    Fate::NoHttp,
    Fate::Accepted,
    Fate::AcceptedThenRejected,
    Fate::OwnFailure,
    Fate::Misdirected,
];

/// One exchange while its fate is worked out.
struct Journey<'a> {
    world: &'a mut World,
    send: usize,
    call: &'a Call<'a>,
    /// How long it takes until the request is on its way.
    spent: Duration,
}

impl World {
    /// Draws what becomes of a request, and lets it loose on the partner if it gets there.
    pub fn plan_exchange(&mut self, who: usize, send: usize, call: &Call<'_>) -> Plan {
        let bad = self.chance.odds(self.weather.faults);
        let moves = bad && self.case.truth.moves && self.chance.odds(80);
        let fate = match (moves, bad) {
            (true, _) => Fate::MovedHere,
            (false, true) => self.chance.pick(&BAD_FATES),
            (false, false) => Fate::Fine,
        };
        self.note(|| format!("its fate: {fate:?}"));
        let sleeps = self.disturb(who);
        self.shake_clock();
        let spent = self.chance.ms(1, if self.weather.faults == 0 { 5 } else { 20 });
        let connects = spent < call.limits.connect.min(call.limits.whole);
        let mut journey = Journey { world: self, send, call, spent };
        let mut plan = if connects { journey.meets(fate) } else { journey.meets(Fate::NoConnection) };
        if !sleeps.is_zero() && connects {
            let fault = unanswered(Sent::Whole, Stage::FirstByte, Fault::Suspended);
            plan = Plan::open(plan.ends.after(sleeps), fault);
        }
        plan
    }

    /// Adds a Retry-After, perhaps, in one of its forms.
    pub fn retry_later(&mut self, ends: Moment, answer: Answer) -> (Answer, Option<Duration>) {
        if self.weather.faults == 0 {
            return (answer, None);
        }
        let seconds = self.chance.pick(&[0, 1, 2, 5, 30, 120, 4_000]);
        let wait = Some(Duration::from_secs(seconds));
        match self.chance.below(10) {
            0..4 => (answer, None),
            4 => (with(answer, "retry-after", "soon"), None),
            5 => (with(answer, "retry-after", "9223372037"), Some(Duration::from_secs(9_223_372_037))),
            6 => {
                let date = |moment: Moment| httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + moment.since_start());
                let dated = with(answer, "date", &date(ends));
                (with(dated, "retry-after", &date(ends.after(Duration::from_secs(seconds)))), wait)
            }
            _ => (with(answer, "retry-after", &seconds.to_string()), wait),
        }
    }
}

impl Journey<'_> {
    fn meets(&mut self, fate: Fate) -> Plan {
        match fate {
            Fate::Fine | Fate::Slow => self.reaches(fate == Fate::Slow, Will::Execute),
            Fate::OwnFailure => self.reaches(false, Will::Fail),
            Fate::Accepted => self.accepts(Will::Accept),
            Fate::AcceptedThenRejected => self.accepts(Will::AcceptThenReject),
            Fate::NoConnection => self.no_connection(),
            Fate::SentInPart => self.in_part(),
            Fate::AnswerLost => {
                self.arrives(Will::Execute);
                self.silence()
            }
            Fate::ExecutedLate => self.late(),
            Fate::Swallowed => {
                if self.world.chance.odds(50) {
                    self.silence()
                } else {
                    self.gateway()
                }
            }
            Fate::GatewayFails => {
                self.arrives(Will::Execute);
                self.gateway()
            }
            Fate::NeverForwarded => self.never_forwarded(),
            Fate::AnswerCut => self.cut(),
            Fate::RateLimited => self.refusal(429),
            Fate::Unauthorized => self.refusal(401),
            Fate::Misdirected => self.refusal(421),
            Fate::Unavailable => self.unavailable(),
            Fate::RejectedForGood => {
                let status = self.world.chance.pick(&[400, 403, 422]);
                Plan::certain(self.soon(), Outcome::Answered(answer(status, Body::Error)))
            }
            Fate::MovedHere => self.moved("/moved"),
            Fate::MovedElsewhere => self.moved("http://elsewhere.test/"),
            Fate::Conflict | Fate::LoginPage | Fate::OddSuccess | Fate::SeeOther | Fate::NoHttp => self.puzzle(fate),
        }
    }

    /// Returns when a quick answer comes.
    fn soon(&mut self) -> Moment {
        let takes = self.spent + self.world.chance.ms(1, 80);
        self.world.now.after(takes.min(patience(&self.call.limits, self.spent).0))
    }

    fn request(&mut self, will: Will, arrives: Moment, takes: Duration) -> usize {
        let world = &mut *self.world;
        let lag = Duration::from_millis(world.chance.below(world.case.truth.lag.as_millis() as u64 + 1));
        let address = usize::from(self.call.to == Some(ADDRESSES[1]));
        world.partner.requests.push(Request { send: self.send, address, arrives, takes, lag, will, came: None });
        world.partner.requests.len() - 1
    }

    fn quickly(&mut self) -> Duration {
        let longest = self.world.case.truth.takes.as_millis() as u64;
        let usual = if self.world.weather.faults == 0 { 20 } else { 400 };
        self.world.chance.ms(1, longest.clamp(1, usual))
    }

    /// Lets the request reach the partner at once.
    fn arrives(&mut self, will: Will) -> Came {
        let takes = self.quickly();
        self.arrives_for(will, takes)
    }

    fn arrives_for(&mut self, will: Will, takes: Duration) -> Came {
        let arrives = self.world.now.after(self.spent + self.world.chance.ms(1, 30));
        let request = self.request(will, arrives, takes);
        self.world.partner.advance(&self.world.case.truth, arrives);
        self.world.partner.requests[request].came.expect("it arrived just now")
    }

    fn reaches(&mut self, slow: bool, will: Will) -> Plan {
        let longest = self.world.case.truth.takes.as_millis() as u64;
        let takes = if slow { self.world.chance.ms(1, longest.max(1)) } else { self.quickly() };
        let came = self.arrives_for(will, takes);
        self.shows(came)
    }

    fn accepts(&mut self, will: Will) -> Plan {
        // A partner without locks would do accepted work twice; and there is nothing to accept about a question.
        if self.world.case.truth.keys == Keys::SuccessesOnly || self.world.case.policy.method.is_safe() {
            return self.reaches(false, Will::Execute);
        }
        let longest = self.world.case.truth.retention / 50;
        let takes = self.world.chance.magnitude(10, 3_600_000).min(longest);
        let came = self.arrives_for(will, takes);
        self.shows(came)
    }

    /// Shows the partner's own answer, unless it takes longer than we wait.
    fn shows(&mut self, came: Came) -> Plan {
        let began = self.world.now;
        let (longest, limit) = patience(&self.call.limits, self.spent);
        if came.at > began.after(longest) {
            return Plan::open(began.after(longest), unanswered(Sent::Whole, Stage::FirstByte, Fault::TimedOut(limit)));
        }
        let reply = came.reply;
        self.world.note(|| format!("the partner answers {reply:?}"));
        let mut shown = answer(reply.status, reply.says);
        if let Some((name, value)) =
            self.world.case.policy.idempotency.replay_marker.as_ref().filter(|_| reply.replayed)
        {
            shown = with(shown, name, value);
        }
        let (shown, floor) = if reply.status == 409 { self.world.retry_later(came.at, shown) } else { (shown, None) };
        let fine = reply.status == 200;
        let ambiguous = matches!(reply.status, 409 | 500) || reply.status == 202;
        let plan = Plan::certain(came.at.max(began), Outcome::Answered(shown));
        Plan { ambiguous, fine, accepted: reply.status == 202, floor, ..plan }
    }

    fn no_connection(&mut self) -> Plan {
        let limits = self.call.limits;
        let longest = limits.connect.min(limits.whole);
        let kinds = [
            (Sent::Nothing, Stage::Connect, Fault::ConnectionRefused),
            (Sent::Nothing, Stage::Connect, Fault::Unreachable),
            (Sent::Nothing, Stage::Connect, Fault::TimedOut(Limit::Connect)),
            (Sent::Nothing, Stage::Tls, Fault::Certificate(Distrust::Expired)),
            (Sent::Nothing, Stage::Write, Fault::Closed),
            // In TLS 1.3 the partner looks at our certificate after the request left.
            (Sent::Whole, Stage::FirstByte, Fault::ClientCertificateRefused),
        ];
        let (sent, stage, fault) = if longest <= self.spent { kinds[2] } else { self.world.chance.pick(&kinds) };
        let takes = if fault == Fault::TimedOut(Limit::Connect) { longest } else { self.spent };
        Plan::certain(self.world.now.after(takes), unanswered(sent, stage, fault))
    }

    fn in_part(&mut self) -> Plan {
        // A partner that acts while it reads is rare, and the reason why this is doubt.
        if self.world.chance.odds(20) {
            self.arrives(Will::Execute);
        }
        let fault = self.world.chance.pick(&[Fault::Reset, Fault::TimedOut(Limit::Write)]);
        Plan::open(self.soon(), unanswered(Sent::Part, Stage::Write, fault))
    }

    fn silence(&mut self) -> Plan {
        let (longest, limit) = patience(&self.call.limits, self.spent);
        let ended = [Fault::Closed, Fault::Reset, Fault::Alert, Fault::TimedOut(limit), Fault::TimedOut(limit)];
        let fault = self.world.chance.pick(&ended);
        let ends = if fault == Fault::TimedOut(limit) { self.world.now.after(longest) } else { self.soon() };
        Plan::open(ends, unanswered(Sent::Whole, Stage::FirstByte, fault))
    }

    fn late(&mut self) -> Plan {
        let plan = if self.world.chance.odds(60) { self.times_out() } else { self.gateway() };
        let longest = self.world.case.truth.late.as_millis() as u64;
        let late = self.world.chance.ms(0, longest);
        let takes = self.quickly();
        self.request(Will::Execute, plan.ends.after(late), takes);
        plan
    }

    fn times_out(&mut self) -> Plan {
        let (longest, limit) = patience(&self.call.limits, self.spent);
        let outcome = unanswered(Sent::Whole, Stage::FirstByte, Fault::TimedOut(limit));
        Plan::open(self.world.now.after(longest), outcome)
    }

    fn gateway(&mut self) -> Plan {
        let refuses = self.world.case.policy.classify.refused.contains(&503);
        let statuses: &[u16] = if refuses { &[500, 502, 504, 408] } else { &[500, 502, 503, 503, 504, 408] };
        let status = self.world.chance.pick(statuses);
        let ends = self.soon();
        let reported = self.reported(answer(status, Body::Error));
        let (shown, floor) = self.world.retry_later(ends, reported);
        Plan { floor, ..Plan::open(ends, Outcome::Answered(shown)) }
    }

    /// Adds what the gateway reports, perhaps. One that the profile trusts may be vague and is never wrong; another may
    /// have tried before, and reports its last try only.
    fn reported(&mut self, shown: Answer) -> Answer {
        const VAGUE: [&str; 5] = [
            "gw; error=http_response_timeout",
            "gw; error=connection_terminated",
            "gw; error=proxy_internal_error",
            "gw; error=connection_refused; received-status=200",
            "origin-gw, edge; error=connection_refused",
        ];
        if !self.world.chance.odds(30) {
            return shown;
        }
        let trusted = self.world.case.policy.classify.trust_proxy_status;
        let vague = trusted || self.world.chance.odds(50);
        let report = if vague { self.world.chance.pick(&VAGUE) } else { "gw; error=connection_refused" };
        with(shown, "proxy-status", report)
    }

    /// Shows what a gateway says that never got the request to the partner.
    fn never_forwarded(&mut self) -> Plan {
        let rules = &self.world.case.policy.classify;
        let (trusted, refused) = (rules.trust_proxy_status, rules.refused.contains(&503));
        let status = self.world.chance.pick(&[502, 503, 504]);
        let report = self.world.chance.pick(&["gw; error=connection_refused", "gw; error=dns_error, edge"]);
        let ends = self.soon();
        let reported = with(answer(status, Body::Error), "proxy-status", report);
        let (shown, floor) = self.world.retry_later(ends, reported);
        let ambiguous = !(trusted || refused && status == 503);
        Plan { floor, ambiguous, ..Plan::certain(ends, Outcome::Answered(shown)) }
    }

    fn refusal(&mut self, status: u16) -> Plan {
        let ends = self.soon();
        let plain = answer(status, Body::Error);
        let (shown, floor) = if status == 401 { (plain, None) } else { self.world.retry_later(ends, plain) };
        Plan { floor, ..Plan::certain(ends, Outcome::Answered(shown)) }
    }

    fn unavailable(&mut self) -> Plan {
        let refuses = self.world.case.policy.classify.refused.contains(&503);
        let plan = self.refusal(503);
        Plan { ambiguous: !refuses, ..plan }
    }

    fn moved(&mut self, location: &str) -> Plan {
        let moved = with(answer(307, Body::Error), "location", location);
        Plan::certain(self.soon(), Outcome::Answered(moved))
    }

    fn cut(&mut self) -> Plan {
        if self.world.chance.odds(30) {
            return self.cut_page();
        }
        let came = self.arrives(Will::Execute);
        let plan = self.shows(came);
        match plan.outcome {
            Outcome::Answered(answer) if plan.fine => {
                let fault = self.world.chance.pick(&[Fault::Closed, Fault::TimedOut(Limit::Body)]);
                let cut = Answer { ending: Ending::Cut(fault), body: answer.body[..5].to_vec(), ..answer };
                Plan::open(plan.ends, Outcome::Answered(cut))
            }
            outcome => Plan { outcome, ..plan },
        }
    }

    /// Shows the beginning of a page that somebody else answered with.
    fn cut_page(&mut self) -> Plan {
        let page = answer(200, Body::Html);
        let cut = Answer { ending: Ending::Cut(Fault::Closed), body: page.body[..5].to_vec(), ..page };
        Plan::open(self.soon(), Outcome::Answered(cut))
    }

    /// Shows something of which nobody can say whether it came with an execution.
    fn puzzle(&mut self, fate: Fate) -> Plan {
        if self.world.chance.odds(50) {
            self.arrives(Will::Execute);
        }
        let policy = &self.world.case.policy;
        let (mapped, has_rule) = (!policy.classify.in_progress.is_empty(), policy.success.is_some());
        let shown = match fate {
            Fate::Conflict if mapped => answer(412, Body::Error),
            Fate::Conflict => answer(self.world.chance.pick(&[409, 412]), Body::Error),
            Fate::LoginPage => answer(200, Body::Html),
            Fate::OddSuccess if has_rule => answer(200, Body::Odd),
            Fate::OddSuccess => answer(self.world.chance.pick(&[206, 207]), Body::Odd),
            Fate::SeeOther => with(answer(self.world.chance.pick(&[301, 302, 303]), Body::Error), "location", "/done"),
            _ => {
                let fault = self.world.chance.pick(&[Fault::NotHttp, Fault::HeadTooLarge]);
                return Plan::open(self.soon(), unanswered(Sent::Whole, Stage::FirstByte, fault));
            }
        };
        Plan::open(self.soon(), Outcome::Answered(shown))
    }
}
