//! One form for all ways to write the same JSON.

use serde_json::value::RawValue;

/// Deeper documents are taken as they are. Source: the limit that serde_json itself sets.
const DEEPEST: usize = 128;

/// Returns the canonical form of a JSON document: no blanks, members sorted by name, strings written one way, arrays in
/// their order, numbers as their source text (`1.0` is not `1`, and nothing is rounded). The value that the steps of
/// `left_out` lead to is missing from it.
///
/// Returns `None` where the document is no JSON, has an object with two members of one name or a string that is no
/// text (a lone surrogate), or is nested deeper than 128 levels: then its meaning is not certain, or not worth it.
///
/// Source: RFC 8785, but for numbers; decisions 11.
pub(super) fn canonical(document: &[u8], left_out: Option<&[Box<str>]>) -> Option<Vec<u8>> {
    // Checks the whole syntax, so that the writer below meets valid JSON only.
    let valid: &RawValue = serde_json::from_slice(document).ok()?;
    let mut writer = Writer { rest: valid.get(), form: Vec::with_capacity(document.len()) };
    writer.value(left_out, 0)?;
    Some(writer.form)
}

/// Writes the canonical form of valid JSON while reading it once.
struct Writer<'a> {
    rest: &'a str,
    form: Vec<u8>,
}

impl<'a> Writer<'a> {
    /// Writes the next value; nothing where `left_out` leads right here.
    fn value(&mut self, left_out: Option<&[Box<str>]>, depth: usize) -> Option<()> {
        if depth > DEEPEST {
            return None;
        }
        let start = self.form.len();
        match self.peek()? {
            b'{' => self.object(left_out, depth)?,
            b'[' => self.array(left_out, depth)?,
            b'"' => {
                let text = self.string()?;
                self.write_string(&text)?;
            }
            _ => {
                let scalar =
                    self.take(self.rest.find([',', ']', '}', ' ', '\t', '\n', '\r']).unwrap_or(self.rest.len()));
                self.form.extend_from_slice(scalar.as_bytes());
            }
        }
        if left_out.is_some_and(<[_]>::is_empty) {
            self.form.truncate(start);
        }
        Some(())
    }

    fn object(&mut self, left_out: Option<&[Box<str>]>, depth: usize) -> Option<()> {
        let mut members: Vec<(String, Vec<u8>)> = Vec::new();
        self.take(1);
        while self.another(b'}')? {
            let name = self.string()?;
            self.peek()?;
            self.take(1);
            let outer = std::mem::take(&mut self.form);
            let steps = left_out.and_then(|steps| onward(steps, &name));
            self.value(steps, depth + 1)?;
            let value = std::mem::replace(&mut self.form, outer);
            if !steps.is_some_and(<[_]>::is_empty) {
                members.push((name, value));
            }
        }
        members.sort_unstable();
        if members.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            return None;
        }
        self.form.push(b'{');
        for (n, (name, value)) in members.iter().enumerate() {
            if n > 0 {
                self.form.push(b',');
            }
            self.write_string(name)?;
            self.form.push(b':');
            self.form.extend_from_slice(value);
        }
        self.form.push(b'}');
        Some(())
    }

    fn array(&mut self, left_out: Option<&[Box<str>]>, depth: usize) -> Option<()> {
        self.take(1);
        self.form.push(b'[');
        let mut index = 0usize;
        while self.another(b']')? {
            if index > 0 {
                self.form.push(b',');
            }
            let steps = left_out.and_then(|steps| onward(steps, &index.to_string()));
            self.value(steps, depth + 1)?;
            index += 1;
        }
        self.form.push(b']');
        Some(())
    }

    /// Steps over a comma; returns whether a member follows before `end`, which is stepped over too.
    fn another(&mut self, end: u8) -> Option<bool> {
        if self.peek()? == b',' {
            self.take(1);
        }
        let ended = self.peek()? == end;
        if ended {
            self.take(1);
        }
        Some(!ended)
    }

    /// Returns the text of the string that comes next.
    fn string(&mut self) -> Option<String> {
        self.peek()?;
        let bytes = self.rest.as_bytes();
        let mut end = 1;
        while *bytes.get(end)? != b'"' {
            end += if bytes[end] == b'\\' { 2 } else { 1 };
        }
        serde_json::from_str(self.take(end + 1)).ok()
    }

    fn write_string(&mut self, text: &str) -> Option<()> {
        serde_json::to_writer(&mut self.form, text).ok()
    }

    /// Steps over blanks and returns the byte that follows.
    fn peek(&mut self) -> Option<u8> {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\n', '\r']);
        self.rest.bytes().next()
    }

    fn take(&mut self, len: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(len);
        self.rest = rest;
        taken
    }
}

/// Returns the steps that are left behind `step`, where they lead through it.
fn onward<'a>(steps: &'a [Box<str>], step: &str) -> Option<&'a [Box<str>]> {
    match steps.split_first()? {
        (first, rest) if **first == *step => Some(rest),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::json::Pointer;
    use proptest::prelude::*;
    use serde_json::Value;

    fn form(document: &str) -> Option<String> {
        canonical(document.as_bytes(), None).map(|form| String::from_utf8(form).expect("JSON is text"))
    }

    fn form_without(pointer: &str, document: &str) -> Option<String> {
        let pointer = Pointer::new(pointer).expect("a pointer");
        let form = canonical(document.as_bytes(), Some(pointer.steps()));
        form.map(|form| String::from_utf8(form).expect("JSON is text"))
    }

    #[test]
    fn documents_with_one_meaning_have_one_form() {
        let cases = [
            (" { \"b\" : 1 ,\n\t\"a\" : [ 1 , 2 ] } \r\n", r#"{"a":[1,2],"b":1}"#),
            (r#"{"a":{"d":{},"c":[]},"":null}"#, r#"{"":null,"a":{"c":[],"d":{}}}"#),
            (r#"["\u00e9\/\u0022\u000a","é/\"\n"]"#, r#"["é/\"\n","é/\"\n"]"#),
            (r#"{"\u0062":1,"a":2}"#, r#"{"a":2,"b":1}"#),
            (r#"["a]b","}","\\",",", " x "]"#, r#"["a]b","}","\\",","," x "]"#),
            (" [ true,false , null ] ", "[true,false,null]"),
            ("[ [ ] , { } , [ [ 1 ] ] ]", "[[],{},[[1]]]"),
            (" 12.50 ", "12.50"),
            (r#""x""#, r#""x""#),
        ];
        for (document, expected) in cases {
            assert_eq!(form(document).as_deref(), Some(expected), "{document}");
        }
    }

    #[test]
    fn numbers_keep_their_source_text() {
        for number in ["1", "1.0", "1e2", "1E+2", "100", "-0", "0", "9007199254740993", "0.1000000000000000055"] {
            assert_eq!(form(&format!("[{number} ]")), Some(format!("[{number}]")));
        }
    }

    #[test]
    fn documents_without_a_certain_meaning_have_no_form() {
        let deep = format!("{}{}", "[".repeat(DEEPEST + 2), "]".repeat(DEEPEST + 2));
        let cases = [
            "",
            " ",
            "{",
            "{}{}",
            "[1,]",
            "{'a':1}",
            "NaN",
            "01",
            "\u{feff}{}",
            r#"{"a":1,"a":1}"#,
            r#"{"a":1,"\u0061":2}"#,
            r#"[{"x":{"a":1,"b":2,"a":3}}]"#,
            r#"["\ud800"]"#,
            &deep,
        ];
        for document in cases {
            assert_eq!(form(document), None, "{document}");
        }
        assert_eq!(canonical(b"\"\xff\"", None), None);
        let deep_enough = format!("{}{}", "[".repeat(DEEPEST), "]".repeat(DEEPEST));
        assert_eq!(form(&deep_enough), Some(deep_enough));
    }

    #[test]
    fn the_value_at_the_pointer_is_left_out() {
        let cases = [
            ("/key", r#"{"key":"k1","a":1}"#, r#"{"a":1}"#),
            ("/key", r#"{"a":1,"key":{"x":[1]}}"#, r#"{"a":1}"#),
            ("/key", r#"{"a":{"key":1}}"#, r#"{"a":{"key":1}}"#),
            ("/key", r#"{"k\u0065y":1}"#, "{}"),
            ("/meta/key", r#"{"meta":{"key":1,"b":2},"key":3}"#, r#"{"key":3,"meta":{"b":2}}"#),
            ("/a/1/k", r#"{"a":[{"k":1},{"k":2},{"k":3}]}"#, r#"{"a":[{"k":1},{},{"k":3}]}"#),
            ("/a/1", r#"{"a":[1,2,3]}"#, r#"{"a":[1,,3]}"#),
            ("/a~1b", r#"{"a/b":1}"#, "{}"),
            ("/missing", r#"{"a":1}"#, r#"{"a":1}"#),
            ("", r#"{"a":1}"#, ""),
        ];
        for (pointer, document, expected) in cases {
            assert_eq!(form_without(pointer, document).as_deref(), Some(expected), "{pointer} {document}");
        }
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let scalar = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "\\PC{0,6}|[\"\\\\\\n,{}\\[\\]]{0,4}".prop_map(Value::from),
        ];
        scalar.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-cé\"\\\\]{0,2}", inner, 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_form_has_the_meaning_of_the_document_and_is_its_own_form(value in any_value()) {
            let pretty = serde_json::to_string_pretty(&value).expect("a value can be written");
            let once = form(&pretty).expect("it is JSON");
            prop_assert_eq!(&serde_json::from_str::<Value>(&once).expect("the form is JSON"), &value);
            prop_assert_eq!(form(&once), Some(once.clone()));
            prop_assert_eq!(form(&value.to_string()), Some(once));
        }

        #[test]
        fn no_document_panics(document in "[\\[\\]{}:,\"\\\\a1 .e-]{0,16}", pointer in "(/[a1]?){0,2}") {
            form(&document);
            form_without(&pointer, &document);
        }
    }
}
