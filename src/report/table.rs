//! Tables on the terminal, and the same without lines in a pipe.

use comfy_table::{ColumnConstraint, ContentArrangement, Table, presets};

/// Returns a table: as wide as the terminal that stdout is, or as it needs to be. The first column is never broken:
/// keys are copied from it.
pub fn table(head: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(head.iter().map(|name| name.to_uppercase()));
    table.set_content_arrangement(ContentArrangement::Dynamic);
    table.add_rows(rows);
    let last = head.len().saturating_sub(1);
    for (at, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, if at == last { 0 } else { 2 }));
        if at == 0 {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    table.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

/// Returns the columns of the terminal that stdout is; `None` where it is none.
pub fn terminal_width() -> Option<u16> {
    Table::new().width()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_no_line_has_blanks_at_its_end() {
        let text = table(
            &["key", "state"],
            vec![vec!["k1".into(), "confirmed".into()], vec!["order-17".into(), "in_doubt".into()]],
        );
        assert_eq!(text, "KEY       STATE\nk1        confirmed\norder-17  in_doubt");
    }
}
