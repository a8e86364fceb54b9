//! `${VARIABLE}` in header values and URLs.

use super::World;
use super::error::{Fault, ProfileError, VariableState};
use super::raw::Field;

/// What stands before a reference in the ledger: `$env:NAME` for a value that is one variable, else
/// `$env:` and the template, such as `$env:Bearer ${NAME}`.
pub(super) const REFERENCE: &str = "$env:";
/// What stands in the ledger for a secret that is not written down at all.
pub(super) const MASKED: &str = "$masked";
/// What stands in the ledger before a literal text that would read as one of these marks.
const LITERAL: &str = "$text:";

/// A piece of a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece<'t> {
    /// Text as it is.
    Text(&'t str),
    /// The name of a variable.
    Variable(&'t str),
}

/// Splits `text` at its `${NAME}`s; `None` where one has no end or no proper name.
pub(super) fn pieces(text: &str) -> Option<Vec<Piece<'_>>> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let (name, behind) = after.split_once('}')?;
        let letters = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        if name.is_empty() || !letters || name.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        if !before.is_empty() {
            pieces.push(Piece::Text(before));
        }
        pieces.push(Piece::Variable(name));
        rest = behind;
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest));
    }
    Some(pieces)
}

/// Splits the text of `field` at its variables.
pub(super) fn template<'s>(field: &Field<'s>) -> Result<Vec<Piece<'s>>, ProfileError> {
    pieces(field.text()?).ok_or_else(|| field.refused("has a ${ without a name of letters, digits and _ and a }", None))
}

/// Returns the value of a variable that `field` refers to: never empty, without control characters.
pub(super) fn variable(field: &Field<'_>, name: &str, world: &dyn World) -> Result<String, ProfileError> {
    let state = match world.env(name) {
        None => VariableState::Unset,
        Some(value) if value.is_empty() => VariableState::Empty,
        Some(value) if value.chars().any(char::is_control) => VariableState::Unusable,
        Some(value) => return Ok(value),
    };
    Err(field.fault(Fault::Variable { key: field.key(), name: name.into(), state }))
}

/// Returns how the ledger refers to `template`, which has variables.
pub(super) fn reference(template: &str) -> String {
    match pieces(template).as_deref() {
        Some([Piece::Variable(name)]) => format!("{REFERENCE}{name}"),
        _ => format!("{REFERENCE}{template}"),
    }
}

/// Returns how the ledger writes a literal text so that it does not read as a mark.
pub(super) fn literal(text: &str) -> String {
    let mark = [REFERENCE, MASKED, LITERAL].iter().any(|mark| text.starts_with(mark));
    if mark { format!("{LITERAL}{text}") } else { text.to_owned() }
}

/// Returns the text that the ledger wrote down, or `None` where it wrote a reference or a mask.
pub(super) fn written(stored: &str) -> Option<&str> {
    match stored.strip_prefix(LITERAL) {
        Some(text) => Some(text),
        None if stored.starts_with(REFERENCE) || stored == MASKED => None,
        None => Some(stored),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_is_split_at_its_variables() {
        use Piece::{Text, Variable};
        assert_eq!(pieces("Bearer ${A_1}"), Some(vec![Text("Bearer "), Variable("A_1")]));
        assert_eq!(pieces("${A}${B}c"), Some(vec![Variable("A"), Variable("B"), Text("c")]));
        assert_eq!(pieces("$5 {key} $"), Some(vec![Text("$5 {key} $")]));
        assert_eq!(pieces(""), Some(vec![]));
        for broken in ["${A", "${}", "${1A}", "${A-B}", "x ${ A}"] {
            assert_eq!(pieces(broken), None, "{broken}");
        }
    }

    #[test]
    fn marks_of_the_ledger_read_back() {
        assert_eq!(reference("${TOKEN}"), "$env:TOKEN");
        assert_eq!(reference("Bearer ${TOKEN}"), "$env:Bearer ${TOKEN}");
        for text in ["plain", "$5", "$env:HOME", "$masked", "$text:a", ""] {
            assert_eq!(written(&literal(text)), Some(text));
        }
        for mark in ["$masked", "$env:A", "$env:Bearer ${A}"] {
            assert_eq!(written(mark), None, "{mark}");
        }
    }
}
