//! Lines of a text that are no longer than a terminal is wide.

/// Breaks the lines that are longer than `width` columns between words; what follows stands two columns further in than
/// its line. Words that are longer than that stay whole, colours count for nothing.
pub(super) fn broken(text: &str, width: usize) -> String {
    let mut lines = Vec::new();
    for line in text.lines() {
        let indent = line.len() - line.trim_start_matches(' ').len();
        let mut current = " ".repeat(indent);
        let mut is_empty = true;
        for word in line[indent..].split(' ') {
            if !is_empty && columns(&current) + 1 + columns(word) > width {
                let next = " ".repeat(indent + 2);
                lines.push(std::mem::replace(&mut current, next));
            } else if !is_empty {
                current.push(' ');
            }
            current.push_str(word);
            is_empty = false;
        }
        lines.push(current);
    }
    lines.join("\n")
}

/// Returns how many columns a text takes, without the sequences that colour it.
fn columns(text: &str) -> usize {
    let mut within = false;
    let seen = text.chars().filter(|c| {
        let begins = *c == '\u{1b}';
        let was_within = within || begins;
        within = begins || (within && *c != 'm');
        !was_within
    });
    seen.count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_broken_between_words_and_short_ones_stay() {
        let text = "  one  two   three\n\nfour five six seven eight\n  a-word-too-long-for-it b";
        assert_eq!(
            broken(text, 18),
            "  one  two   three\n\nfour five six\n  seven eight\n  a-word-too-long-for-it\n    b"
        );
    }

    #[test]
    fn colours_take_no_room() {
        let text = "\u{1b}[1mfour five\u{1b}[0m six";
        assert_eq!(columns(text), 13);
        assert_eq!(broken(text, 13), text);
        assert_eq!(broken(text, 12), "\u{1b}[1mfour five\u{1b}[0m\n  six");
    }
}
