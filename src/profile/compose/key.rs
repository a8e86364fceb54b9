//! Where the idempotency key comes from.

use super::{ComposeError, Draft, KeySource, NoKeyThere};
use crate::engine::json::Pointer;
use crate::engine::operation::IdempotencyKey;
use crate::engine::policy::{Idempotency, KeyPlace};

/// Returns the key, and where it stands in the body if it travels there.
pub(super) fn read(draft: &Draft, rules: &Idempotency) -> Result<(IdempotencyKey, Option<Pointer>), ComposeError> {
    let in_body = rules.place == KeyPlace::Body;
    let (text, pointer) = match &draft.key {
        KeySource::Given(_) | KeySource::Made(_) if in_body => return Err(ComposeError::KeyInBody),
        KeySource::Given(text) | KeySource::Made(text) | KeySource::Measuring(text) => (text.clone(), None),
        KeySource::Pointer(text) => {
            // The empty pointer is the whole body, which is no key.
            let pointer = Pointer::new(text).filter(|_| !text.is_empty());
            let pointer = pointer.ok_or_else(|| ComposeError::NotAPointer { text: text.as_str().into() })?;
            let fail = |why| ComposeError::KeyPointer { pointer: text.as_str().into(), why };
            (find(&pointer, draft.body.as_deref()).map_err(fail)?, Some(pointer))
        }
    };
    let key = IdempotencyKey::new(&text, rules.max_len).map_err(ComposeError::Key)?;
    Ok((key, pointer.filter(|_| in_body)))
}

fn find(pointer: &Pointer, body: Option<&[u8]>) -> Result<String, NoKeyThere> {
    let body = body.filter(|body| !body.is_empty()).ok_or(NoKeyThere::NoBody)?;
    if let Some(key) = pointer.scalar(body) {
        return Ok(key);
    }
    let is_json = serde_json::from_slice::<&serde_json::value::RawValue>(body).is_ok();
    Err(match pointer.find(body).map(|found| found.get()) {
        None if is_json => NoKeyThere::Nothing,
        None => NoKeyThere::NotJson,
        Some("null") => NoKeyThere::Null,
        Some(_) => NoKeyThere::Composite,
    })
}
