//! What TCP knows of a connection: whether the other host has what we sent.

use crate::engine::units::{counted, show_rounded};
use std::time::Duration;

/// What the kernel tells of a connection (`TCP_INFO`, `SIOCOUTQ`); `None` where a system does not tell it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tcp {
    /// The smoothed round trip.
    pub rtt: Option<Duration>,
    /// Segments that were sent again, the SYN not counted.
    pub resent: Option<u64>,
    /// Segments that left and were not acknowledged.
    pub unacked: Option<u64>,
    /// Bytes that were handed over and not acknowledged, sent or not.
    pub queued_bytes: Option<u64>,
    /// Bytes that the other host acknowledged.
    pub acked_bytes: Option<u64>,
    /// Bytes that were handed over.
    pub sent_bytes: Option<u64>,
}

/// Whether the other host has what was handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// It acknowledged the last byte. The host may be a load balancer.
    Acknowledged,
    /// It did not. It may have the bytes all the same: a lost acknowledgement looks like a lost request.
    Unacknowledged,
}

/// Returns a round trip in words: on one machine it takes less than is shown elsewhere.
pub fn trip(rtt: Duration) -> String {
    if rtt < Duration::from_micros(100) { "less than 0.1ms".into() } else { show_rounded(rtt) }
}

impl Tcp {
    /// Returns whether the other host has what was handed over; `None` where the kernel does not tell enough.
    ///
    /// Source: latency.md 6.3.
    pub fn delivery(&self) -> Option<Delivery> {
        let more_than_none = |count: Option<u64>| count.is_some_and(|count| count > 0);
        if more_than_none(self.unacked) || more_than_none(self.queued_bytes) {
            return Some(Delivery::Unacknowledged);
        }
        let all_acked = matches!((self.acked_bytes, self.sent_bytes), (Some(acked), Some(sent)) if acked >= sent);
        // No segment on its way is not enough: the rest may wait here for a window.
        let nothing_left = self.queued_bytes == Some(0) || self.unacked == Some(0) && all_acked;
        nothing_left.then_some(Delivery::Acknowledged)
    }

    /// Returns whether segments were sent again; `None` where the kernel does not tell.
    pub fn was_resent(&self) -> Option<bool> {
        self.resent.map(|resent| resent > 0)
    }

    /// Returns how much is acknowledged and resent: `253 of 253 bytes acknowledged, 0 segments resent`. Empty where
    /// nothing is known.
    pub fn words(&self) -> String {
        let bytes = match (self.sent_bytes, self.acked_bytes, self.delivery()) {
            // The kernel counts the handshake of TCP, too.
            (Some(0), ..) => None,
            (Some(sent), Some(acked), _) => Some(format!("{} of {sent} bytes acknowledged", acked.min(sent))),
            (_, _, Some(Delivery::Acknowledged)) => Some("everything sent is acknowledged".into()),
            (_, _, Some(Delivery::Unacknowledged)) => Some("not everything sent is acknowledged".into()),
            _ => None,
        };
        let resent = self.resent.map(|resent| format!("{} resent", counted(resent, "segment")));
        [bytes, resent].into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Source of the first four: the cases that were measured in latency.md 6.3.
    #[test]
    fn only_what_is_known_to_be_acknowledged_counts_as_delivered() {
        let tcp = |unacked, queued_bytes, acked_bytes| Tcp {
            unacked,
            queued_bytes,
            acked_bytes,
            sent_bytes: Some(253),
            ..Tcp::default()
        };
        for (case, seen, expected) in [
            ("hung application", tcp(Some(0), Some(0), Some(253)), Some(Delivery::Acknowledged)),
            ("nobody accepts", tcp(Some(0), Some(0), Some(253)), Some(Delivery::Acknowledged)),
            ("our data is dropped", tcp(Some(1), Some(252), Some(1)), Some(Delivery::Unacknowledged)),
            ("their acknowledgements are dropped", tcp(Some(1), Some(252), Some(1)), Some(Delivery::Unacknowledged)),
            ("no queue to look at", tcp(Some(0), None, Some(254)), Some(Delivery::Acknowledged)),
            ("waiting for a window", tcp(Some(0), None, Some(100)), None),
            ("waiting for a window, seen", tcp(Some(0), Some(153), Some(100)), Some(Delivery::Unacknowledged)),
            ("nothing told", Tcp::default(), None),
        ] {
            assert_eq!(seen.delivery(), expected, "{case}");
        }
    }

    #[test]
    fn the_words_tell_what_is_known_and_nothing_else() {
        let all = Tcp { sent_bytes: Some(253), acked_bytes: Some(254), resent: Some(0), ..Tcp::default() };
        assert_eq!(all.words(), "253 of 253 bytes acknowledged, 0 segments resent");
        let some = Tcp { queued_bytes: Some(9), ..Tcp::default() };
        assert_eq!(some.words(), "not everything sent is acknowledged");
        let idle = Tcp { sent_bytes: Some(0), acked_bytes: Some(1), resent: Some(0), ..Tcp::default() };
        assert_eq!(idle.words(), "0 segments resent", "nothing was sent that could be acknowledged");
        assert_eq!(Tcp::default().words(), "");
        assert_eq!(trip(Duration::from_micros(31)), "less than 0.1ms");
        assert_eq!(trip(Duration::from_micros(12_000)), "12ms");
    }
}
