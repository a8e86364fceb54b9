//! JSON pointers into answers: found is what serde_json's own pointer finds, and a pointer survives being printed.
#![no_main]

use abide::engine::json::Pointer;
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|input: (&str, &str)| {
    let (text, document) = input;
    let Some(pointer) = Pointer::new(text) else { return };
    assert_eq!(Pointer::new(&pointer.to_string()).as_ref(), Some(&pointer));
    let scalar = pointer.scalar(document.as_bytes());
    let Ok(value) = serde_json::from_str::<Value>(document) else { return };
    match value.pointer(&pointer.to_string()) {
        Some(Value::String(known)) => assert_eq!(scalar.as_deref(), Some(&**known)),
        Some(Value::Bool(known)) => assert_eq!(scalar, Some(known.to_string())),
        // Numbers keep their source text, which serde_json's value does not.
        Some(Value::Number(_)) => assert!(scalar.is_some()),
        Some(_) | None => assert_eq!(scalar, None),
    }
});
