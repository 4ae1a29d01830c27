//! Tables that fit: columns shrink, the least important ones are left out, and what then is still too wide is stacked.

use drawloom_contract::record::Status;
use unicode_width::UnicodeWidthStr as _;

use super::{
    Style,
    text::{fit, fit_end, shown},
};

/// Between two columns.
const GAP: usize = 2;

/// A column.
#[derive(Debug, Clone, Copy)]
pub struct Column<'a> {
    title: &'a str,
    right: bool,
    /// Not narrower than this; not at all, when absent.
    shrinks_to: Option<usize>,
    /// Left out when the line is too narrow: the highest first.
    leave_out: Option<u8>,
    /// Cut at its beginning, not at its end.
    keeps_end: bool,
    /// Left out unless every column was asked for.
    pub(super) only_wide: bool,
}

impl<'a> Column<'a> {
    /// A column that is shown whole.
    pub const fn new(title: &'a str) -> Self {
        Self { title, right: false, shrinks_to: None, leave_out: None, keeps_end: false, only_wide: false }
    }

    /// A column of numbers.
    #[must_use]
    pub const fn right(mut self) -> Self {
        self.right = true;
        self
    }

    /// It may be cut, but not to less than so many columns.
    #[must_use]
    pub const fn shrinks_to(mut self, least: usize) -> Self {
        self.shrinks_to = Some(least);
        self
    }

    /// A column of paths, which are cut at their beginning.
    #[must_use]
    pub const fn keeps_end(mut self) -> Self {
        self.keeps_end = true;
        self
    }

    /// It is shown only with `-o wide`.
    #[must_use]
    pub const fn only_wide(mut self) -> Self {
        self.only_wide = true;
        self
    }

    /// It may be left out; of those that may, the highest rank goes first.
    #[must_use]
    pub const fn optional(mut self, rank: u8) -> Self {
        self.leave_out = Some(rank);
        self
    }
}

/// A text with a style, as a table shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text {
    text: String,
    style: Option<Style>,
}

impl Text {
    /// Plain text, on one line.
    pub fn new(text: impl AsRef<str>) -> Self {
        Self { text: shown(text.as_ref()).replace('\n', " "), style: None }
    }

    /// The same text in a style.
    #[must_use]
    pub fn style(mut self, style: Style) -> Self {
        self.style = Some(style);
        self
    }

    /// A status, in its colour.
    pub fn status(status: Status) -> Self {
        Self::new(status.as_str()).style(Self::status_style(status))
    }

    /// The status of an unfinished run that no process executes. It is shown only; the journal has no such status.
    pub fn interrupted() -> Self {
        Self::new(INTERRUPTED).style(Style::Notice)
    }

    /// The colour of a status.
    pub fn status_style(status: Status) -> Style {
        match status {
            Status::Completed => Style::Good,
            Status::Failed | Status::TimedOut => Style::Bad,
            Status::Cancelled => Style::Notice,
            Status::Queued | Status::Running | Status::Waiting => Style::Dim,
        }
    }
}

/// How an unfinished run without a process is shown.
pub const INTERRUPTED: &str = "interrupted";

type Paint<'a> = &'a dyn Fn(Style, &str) -> String;

/// The lines of a table, header included.
pub(super) fn lay_out(
    columns: &[Column<'_>],
    rows: &[Vec<Text>],
    width: Option<usize>,
    paint: Paint<'_>,
) -> Vec<String> {
    let mut columns: Vec<(usize, Column<'_>, usize)> = columns
        .iter()
        .enumerate()
        .map(|(place, column)| {
            let cells = rows.iter().map(|row| row[place].text.width());
            (place, *column, cells.chain([column.title.width()]).max().unwrap_or(0))
        })
        // A column with nothing in it says nothing.
        .filter(|(place, _, _)| rows.is_empty() || rows.iter().any(|row| !row[*place].text.is_empty()))
        .collect();
    if let Some(width) = width {
        let whole = columns.clone();
        make_fit(&mut columns, width);
        // A first column alone says too little.
        if (total(&columns) > width || columns.len() == 1) && whole.len() > 1 {
            return stack(&whole, rows, width, paint);
        }
    }
    let mut lines = vec![line(&columns, paint, &|column| Text::new(column.1.title).style(Style::Bold))];
    lines.extend(rows.iter().map(|row| line(&columns, paint, &|column| row[column.0].clone())));
    lines
}

fn total(columns: &[(usize, Column<'_>, usize)]) -> usize {
    columns.iter().map(|(_, _, width)| width + GAP).sum::<usize>().saturating_sub(GAP)
}

/// Cuts columns, then leaves some out, until the rest fits or nothing more can be done.
fn make_fit(columns: &mut Vec<(usize, Column<'_>, usize)>, width: usize) {
    loop {
        let over = total(columns).saturating_sub(width);
        if over == 0 {
            return;
        }
        let spare = |(_, column, has): &(usize, Column<'_>, usize)| {
            column.shrinks_to.map_or(0, |least| has.saturating_sub(least.max(column.title.width())))
        };
        if columns.iter().map(spare).sum::<usize>() >= over {
            // The one with most to spare gives first.
            let mut left = over;
            while left > 0 {
                let widest = columns.iter_mut().max_by_key(|column| spare(column)).expect("there is one to shrink");
                widest.2 -= 1;
                left -= 1;
            }
            return;
        }
        let least = columns.iter().enumerate().filter_map(|(at, (_, column, _))| Some((column.leave_out?, at))).max();
        match least {
            Some((_, at)) => _ = columns.remove(at),
            None => {
                for column in columns.iter_mut() {
                    column.2 -= spare(column);
                }
                return;
            }
        }
    }
}

/// The first column on a line of its own, everything else below it.
fn stack(columns: &[(usize, Column<'_>, usize)], rows: &[Vec<Text>], width: usize, paint: Paint<'_>) -> Vec<String> {
    let (first, rest) = columns.split_first().expect("there are several");
    let mut rest: Vec<(usize, Column<'_>, usize)> = rest.to_vec();
    make_fit(&mut rest, width.saturating_sub(GAP));
    let mut lines = Vec::new();
    for row in rows {
        lines.push(line(std::slice::from_ref(first), paint, &|column| row[column.0].clone()));
        let below = line(&rest, paint, &|column| row[column.0].clone());
        lines.push(format!("{}{below}", " ".repeat(GAP)));
    }
    lines
}

fn line(
    columns: &[(usize, Column<'_>, usize)],
    paint: Paint<'_>,
    cell: &dyn Fn(&(usize, Column<'_>, usize)) -> Text,
) -> String {
    let mut line = String::new();
    for (at, column) in columns.iter().enumerate() {
        let Text { text, style } = cell(column);
        let text = if column.1.keeps_end { fit_end(&text, column.2) } else { fit(&text, column.2) };
        let padding = " ".repeat(column.2.saturating_sub(text.width()));
        let text = style.map_or_else(|| text.clone(), |style| paint(style, &text));
        if at > 0 {
            line.push_str(&" ".repeat(GAP));
        }
        match (column.1.right, at + 1 == columns.len()) {
            (true, _) => line.extend([padding, text]),
            (false, false) => line.extend([text, padding]),
            // Trailing spaces would only make copied tables ragged.
            (false, true) => line.push_str(&text),
        }
    }
    line.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(width: Option<usize>) -> String {
        let columns = [
            Column::new("name"),
            Column::new("status").optional(1),
            Column::new("count").right().optional(2),
            Column::new("text").shrinks_to(8),
        ];
        let row = |cells: [&str; 4]| cells.map(Text::new).to_vec();
        let rows =
            [row(["warp", "completed", "12", "a long text that goes on"]), row(["織機", "failed", "1,024", "short"])];
        lay_out(&columns, &rows, width, &|_, text| text.to_owned()).join("\n")
    }

    #[test]
    fn a_table_is_whole_when_there_is_room() {
        insta::assert_snapshot!(table(None), @r"
        name  status     count  text
        warp  completed     12  a long text that goes on
        織機  failed     1,024  short
        ");
    }

    #[test]
    fn a_table_shrinks_then_leaves_columns_out_then_stacks() {
        insta::assert_snapshot!(table(Some(36)), @r"
        name  status     count  text
        warp  completed     12  a long text…
        織機  failed     1,024  short
        ");
        insta::assert_snapshot!(table(Some(26)), @r"
        name  status     text
        warp  completed  a long t…
        織機  failed     short
        ");
        insta::assert_snapshot!(table(Some(14)), @r"
        name  text
        warp  a long …
        織機  short
        ");
        insta::assert_snapshot!(table(Some(11)), @r"
        warp
          a long t…
        織機
          short
        ");
    }
}
