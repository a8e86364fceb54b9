//! Handshakes: what fails in them was not sent, and is told in words that help.

use crate::run::{LIMITS, Ran, Sending, showing, trusting, trusting_alone};
use crate::secure::{Front, Guests, Identity, Lane, STRANGER};
use abide::engine::exchange::{Distrust, Ending, Fault, Limit, Sent, Stage};
use abide::engine::reason::Reason;
use abide::engine::verdict::{Evidence, Verdict};
use abide::net::Tls;
use abide::rehearse::partner::{self, Partner, Seen};
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{CertificateError, Error};

/// Runs an operation with its three attempts through a front.
async fn through(lane: Lane, tls: Tls) -> (Ran, Seen) {
    let partner = Partner::start(partner::Fault::Fine.script()).expect("starts");
    let front = Front::before(partner.addr(), lane).await;
    let ran = Sending { tls, ..Sending::post(&front.url("/pay")) }.run().await;
    (ran, partner.stop().await)
}

fn reason(ran: &Ran) -> Reason {
    ran.attempts[0].0.reason
}

/// Asserts that the partner heard nothing, and that we know it. `attempts`: how often it was tried.
fn unheard((ran, seen): &(Ran, Seen), stage: Stage, fault: Fault, attempts: usize) {
    assert_eq!(ran.unanswered(), (Sent::Nothing, stage, fault), "{:?}", ran.first().error);
    assert_eq!((ran.verdict, ran.attempts.len()), (Verdict::NotDone, attempts), "{fault:?}");
    assert_eq!((seen.heads, seen.executions), (0, 0));
}

#[tokio::test]
async fn a_handshake_that_hangs_ends_at_the_connect_limit_and_is_told_from_a_connection_that_does() {
    let run = through(Lane::Silent, trusting()).await;
    unheard(&run, Stage::Tls, Fault::TimedOut(Limit::Connect), 3);
    let (ran, _) = run;
    assert_eq!(reason(&ran), Reason::TlsTimeout);
    let stages = ran.first().stages;
    assert!(stages.connect_us.is_some(), "the connection stood");
    assert_eq!((stages.tls_us, stages.write_us), (None, None));
    ran.took_about(LIMITS.connect);
}

#[tokio::test]
async fn a_handshake_that_is_cut_may_be_tried_again() {
    for (lane, fault) in [(Lane::Reset, Fault::Reset), (Lane::Close, Fault::Closed)] {
        let run = through(lane, trusting()).await;
        unheard(&run, Stage::Tls, fault, 3);
        assert_eq!(reason(&run.0), Reason::TlsFailed);
    }
}

#[tokio::test]
async fn a_handshake_that_is_refused_is_not_tried_again() {
    let http = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n".to_vec();
    for (lane, fault, expected) in [
        (Lane::alert(40), Fault::TlsIncompatible, Reason::TlsIncompatible),
        (Lane::alert(70), Fault::TlsIncompatible, Reason::TlsIncompatible),
        (Lane::alert(112), Fault::Tls, Reason::TlsFailed),
        (Lane::alert(80), Fault::Tls, Reason::TlsFailed),
        (Lane::Say(http), Fault::NotTls, Reason::NotTls),
    ] {
        let run = through(lane, trusting()).await;
        unheard(&run, Stage::Tls, fault, 1);
        assert_eq!(reason(&run.0), expected);
    }
}

#[tokio::test]
async fn a_certificate_that_is_not_trusted_is_told_by_its_fault() {
    let stranger = Identity::by(&STRANGER, |_| ());
    for (identity, why, words) in [
        (Identity::expired(), Distrust::Expired, "it ended 2020-01-02T00:00:00Z; this machine's clock says 2"),
        (Identity::early(), Distrust::NotYetValid, "it begins 2999-01-01T00:00:00Z; this machine's clock says 2"),
        (Identity::elsewhere(), Distrust::Name, "it is for other.example, www.other.example, not for 127.0.0.1"),
        (stranger, Distrust::Issuer, ""),
        (Identity::alone(), Distrust::SelfSigned, "it has itself as its issuer"),
        (Identity::root(|_| ()), Distrust::SelfSigned, "it has itself as its issuer"),
    ] {
        let run = through(Lane::showing(&identity), trusting()).await;
        unheard(&run, Stage::Tls, Fault::Certificate(why), 1);
        let said = run.0.first().error.clone().unwrap_or_default();
        assert!(said.starts_with(words), "{why:?}: {said}");
    }
}

#[tokio::test]
async fn both_versions_are_spoken() {
    for version in [&TLS12, &TLS13] {
        let lane = Lane::of(&Identity::made(|_| ()), Guests::All, &[version]);
        let (ran, seen) = through(lane, trusting()).await;
        assert_eq!(ran.status(), (201, Ending::Complete), "{version:?}");
        assert_eq!((ran.verdict, seen.executions), (Verdict::Confirmed, 1));
        assert!(ran.first().stages.tls_us.is_some());
    }
}

#[tokio::test]
async fn a_partner_that_wants_a_certificate_gets_the_right_one_or_did_nothing() {
    let ours = Identity::made(|_| ());
    let wrong = Identity::by(&STRANGER, |_| ());
    for version in [&TLS12, &TLS13] {
        let lane = || Lane::of(&Identity::made(|_| ()), Guests::Certified, &[version]);
        let (ran, seen) = through(lane(), showing(&ours)).await;
        assert_eq!((ran.verdict, seen.executions), (Verdict::Confirmed, 1), "{version:?}");

        for (tls, fault, expected) in [
            (trusting(), Fault::ClientCertificateWanted, Reason::ClientCertificateWanted),
            (showing(&wrong), Fault::ClientCertificateRefused, Reason::ClientCertificate),
        ] {
            let (ran, seen) = through(lane(), tls).await;
            assert_eq!((ran.unanswered().2, reason(&ran)), (fault, expected), "{:?}", ran.first().error);
            assert_eq!((ran.attempts[0].0.evidence, ran.verdict), (Evidence::NotSent, Verdict::NotDone));
            assert_eq!((ran.attempts.len(), seen.heads, seen.executions), (1, 0, 0));
        }
    }
}

#[tokio::test]
async fn an_alert_about_our_certificate_clears_a_request_that_left_and_no_other_does() {
    let ours = Identity::made(|_| ());
    let refusals =
        [CertificateError::Expired, CertificateError::Revoked, CertificateError::ApplicationVerificationFailure];
    for why in refusals.map(Error::InvalidCertificate) {
        let lane = Lane::of(&Identity::made(|_| ()), Guests::Refused(why), &[&TLS13]);
        let (ran, seen) = through(lane, showing(&ours)).await;
        assert_eq!(ran.unanswered(), (Sent::Whole, Stage::FirstByte, Fault::ClientCertificateRefused));
        assert_eq!((ran.verdict, ran.attempts.len(), seen.heads), (Verdict::NotDone, 1, 0));
    }
    let lane = Lane::of(&Identity::made(|_| ()), Guests::Refused(Error::General("no".into())), &[&TLS13]);
    let (ran, seen) = through(lane, showing(&ours)).await;
    assert_eq!(ran.unanswered(), (Sent::Whole, Stage::FirstByte, Fault::Alert), "{:?}", ran.first().error);
    assert_eq!((ran.verdict, seen.heads), (Verdict::InDoubt, 0));
}

#[tokio::test]
async fn a_certificate_that_signed_itself_is_trusted_where_it_is_named_and_only_for_its_names_and_its_time() {
    for identity in [Identity::alone(), Identity::root(|_| ())] {
        let (ran, seen) = through(Lane::showing(&identity), trusting_alone(&identity)).await;
        assert_eq!((ran.verdict, seen.executions), (Verdict::Confirmed, 1), "{:?}", ran.first().error);
    }
    let elsewhere = Identity::root(|params| params.subject_alt_names.clear());
    let ended = Identity::root(|params| params.not_after = rcgen::date_time_ymd(2020, 1, 2));
    for (identity, why) in [(elsewhere, Distrust::Name), (ended, Distrust::Expired)] {
        let run = through(Lane::showing(&identity), trusting_alone(&identity)).await;
        unheard(&run, Stage::Tls, Fault::Certificate(why), 1);
    }
    let (named, shown) = (Identity::root(|_| ()), Identity::root(|_| ()));
    let run = through(Lane::showing(&shown), trusting_alone(&named)).await;
    assert_eq!((run.0.verdict, run.1.heads), (Verdict::NotDone, 0), "another certificate of the same name");
}

#[tokio::test]
async fn a_kept_connection_over_https_carries_the_next_request_without_another_handshake() {
    let partner = Partner::start(partner::Fault::Fine.script()).expect("starts");
    let front = Front::before(partner.addr(), Lane::honest()).await;
    let tls = trusting();
    let sending = |key: &str| Sending { tls: tls.clone(), ..Sending::post(&front.url("/pay")).keyed().key(key) };
    let mut worker = sending("k1").worker();
    let first = sending("k1").run_on(&mut worker).await;
    let second = sending("k2").run_on(&mut worker).await;
    assert!(first.first().stages.tls_us.is_some() && second.first().stages.tls_us.is_none());
    let other = Sending { tls: trusting(), ..sending("k3") }.run_on(&mut worker).await;
    assert!(other.first().stages.tls_us.is_some(), "who trusts or shows something else has a connection of its own");
    let seen = partner.stop().await;
    assert_eq!((seen.connections, seen.executions), (2, 3));
}
