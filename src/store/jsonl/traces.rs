//! What a damaged line still tells; nothing of it is sure.

use crate::engine::operation::{IdempotencyKey, PartnerName};
use crate::store::format::LINE_MAX;
use memchr::memmem;

/// What can still be read of a damaged line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traces {
    /// The claim.
    pub n: Option<u64>,
    /// The key.
    pub key: Option<IdempotencyKey>,
    /// The partner.
    pub partner: Option<PartnerName>,
}

impl Traces {
    /// Reads what follows the start of a line.
    pub fn read(bytes: &[u8]) -> Traces {
        // Only in this line: the next one is somebody else's.
        let line = &bytes[..memchr::memchr(b'\n', bytes).unwrap_or(bytes.len()).min(LINE_MAX)];
        fn after<T: serde::de::DeserializeOwned>(line: &[u8], name: &[u8]) -> Option<T> {
            let at = memmem::find(line, name)? + name.len();
            serde_json::Deserializer::from_slice(&line[at..]).into_iter().next()?.ok()
        }
        Traces { n: after(line, b"\"n\":"), key: after(line, b"\"k\":"), partner: after(line, b"\"partner\":") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_whole_is_read_and_the_next_line_is_left_alone() {
        let damaged = b"{\"t\":\"opened\",\"n\":7,\"k\":\"or\\\"d\",\0\0\0\n{\"t\":\"opened\",\"partner\":\"acme\"";
        let traces = Traces::read(damaged);
        assert_eq!((traces.n, traces.key.as_ref().map(IdempotencyKey::as_str)), (Some(7), Some("or\"d")));
        assert_eq!(traces.partner, None);
        assert_eq!(Traces::read(b"{\"t\":\"ope\0\0"), Traces::default());
    }
}
