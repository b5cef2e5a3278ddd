//! Columns for people. Programs ask for JSON.

use super::text::plain;

/// Lines of cells under their headings; a column is as wide as its widest cell. The last one is not filled up.
pub(super) fn table<const N: usize>(headings: [&str; N], lines: &[[String; N]]) -> String {
    let lines: Vec<[String; N]> = lines.iter().map(|line| line.each_ref().map(|cell| plain(cell))).collect();
    let mut widths = headings.map(|heading| heading.chars().count());
    for line in &lines {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    let headings = headings.map(str::to_owned);
    for line in std::iter::once(&headings).chain(&lines) {
        let cells: Vec<String> = line.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_below_each_other_whatever_the_cells_hold() {
        let lines = [["a".to_owned(), "active".to_owned()], ["b\u{1b}[2Jü".to_owned(), "x".to_owned()]];
        assert_eq!(table(["NAME", "STATE"], &lines), "NAME         STATE\na            active\nb\\u{1b}[2Jü  x\n");
    }
}
