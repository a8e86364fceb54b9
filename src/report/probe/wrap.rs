//! Words in lines of a width.

use super::LABEL;

/// Returns `words` behind `label`, in at most `most` lines of `width` columns; later lines are indented. What does not
/// fit ends in an ellipsis.
pub(super) fn wrapped(label: &str, words: &str, most: usize, width: usize) -> Vec<String> {
    let mut lines = vec![label.to_owned()];
    let mut is_empty = true;
    let mut words = words.split_whitespace().peekable();
    while let Some(word) = words.peek() {
        let at_last = lines.len() == most;
        let line = lines.last_mut().expect("there is always a line");
        let blank = usize::from(!is_empty);
        if is_empty || length(line) + blank + length(word) <= width {
            line.push_str(if is_empty { "" } else { " " });
            line.push_str(word);
            is_empty = false;
            words.next();
        } else if at_last {
            break;
        } else {
            lines.push(" ".repeat(LABEL));
            is_empty = true;
        }
    }
    let is_cut = words.peek().is_some();
    let last = lines.last_mut().expect("there is always a line");
    *last = if is_cut { cut(&format!("{last} …{}", " ".repeat(width)), width) } else { cut(last, width) };
    lines.iter().map(|line| cut(line, width)).collect()
}

/// Returns at most `width` columns of a line; what is cut ends in an ellipsis.
pub(super) fn cut(line: &str, width: usize) -> String {
    let line = line.trim_end();
    if length(line) <= width {
        return line.to_owned();
    }
    let kept: String = line.chars().take(width.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

fn length(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_wrapped_and_what_is_left_over_is_marked() {
        let lines = wrapped("  because  ", "one two three four five", 2, 20);
        assert_eq!(lines, ["  because  one two", "           three …"]);
        assert_eq!(wrapped("  next     ", "one two", 2, 20), ["  next     one two"]);
        assert_eq!(wrapped("  next     ", "one two-three", 2, 18), ["  next     one", "           two-th…"]);
        assert_eq!(wrapped("  next     ", "", 2, 18), ["  next"]);
    }
}
