//! The one way to send what nothing records: a sample of `abide calibrate --allow-unsafe-method`.

use super::{Call, Permit, Transport};
use crate::engine::deadline::Limits;
use crate::engine::exchange::Exchange;
use crate::engine::operation::Operation;

/// Sends an operation once and records nothing: afterwards nobody can ask what became of it. It is for those to call who
/// have a person's word for that; the key must be a new one.
///
/// A redirect is not followed, and nothing is sent a second time.
pub async fn send_unrecorded<T: Transport>(transport: &mut T, operation: &Operation, limits: Limits) -> Exchange {
    let (a, to, hop, crossed) = (1, None, None, false);
    transport.exchange(Permit(()), Call { operation, a, to, hop, crossed, limits }).await
}
