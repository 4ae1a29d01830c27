//! A stream that people or programs read: the one place where text becomes bytes.

use std::io::{self, Stderr, Stdout, Write};

use unicode_width::UnicodeWidthChar as _;

use super::safe::printed;

/// Maximum columns of one line on a terminal. Longer ones can be read from a pipe, or with `--json`.
const MAX_COLUMNS: usize = 20_000;

/// The process's own. Nothing else in this crate names it, which a test looks after.
pub(crate) fn stdout() -> Stdout {
    io::stdout()
}

/// The process's own. Nothing else in this crate names it, which a test looks after.
pub(crate) fn stderr() -> Stderr {
    io::stderr()
}

/// Where text goes.
pub(super) struct Sink {
    to: Box<dyn Write + Send>,
    /// Columns of the line so far; on a terminal only.
    columns: Option<usize>,
}

impl Sink {
    pub(super) fn new(to: Box<dyn Write + Send>, is_terminal: bool) -> Self {
        Self { to, columns: is_terminal.then_some(0) }
    }

    /// Prints text.
    pub(super) fn print(&mut self, text: &str) -> io::Result<()> {
        let text = printed(text);
        match &mut self.columns {
            Some(columns) => self.to.write_all(cut(&text, columns).as_bytes())?,
            None => self.to.write_all(text.as_bytes())?,
        }
        self.to.flush()
    }

    /// Writes text as it is. Only for what is no terminal.
    pub(super) fn content(&mut self, text: &str) -> io::Result<()> {
        self.to.write_all(text.as_bytes())?;
        self.to.flush()
    }

    /// Replaces the `rows` rows above the cursor by these lines.
    pub(super) fn redraw(&mut self, rows: usize, lines: &[String]) -> io::Result<()> {
        let mut text = match rows {
            0 => "\r".to_owned(),
            rows => format!("\r\x1b[{rows}A"),
        };
        for line in lines {
            text.push_str(&printed(line).replace('\n', " "));
            // What an earlier, longer line left.
            text.push_str("\x1b[K\r\n");
        }
        text.push_str("\x1b[J");
        self.columns = self.columns.map(|_| 0);
        self.to.write_all(text.as_bytes())?;
        self.to.flush()
    }
}

/// The text with lines of at most [`MAX_COLUMNS`]. A line that is cut says so.
fn cut(text: &str, columns: &mut usize) -> String {
    let mut cut = String::with_capacity(text.len());
    for character in text.chars() {
        let before = *columns;
        *columns = if character == '\n' { 0 } else { before.saturating_add(character.width().unwrap_or(1)) };
        match *columns <= MAX_COLUMNS {
            true => cut.push(character),
            false if before <= MAX_COLUMNS => {
                cut.push_str(&format!(
                    "… (cut: a line of more than {MAX_COLUMNS} columns; `--json` and pipes have all of it)"
                ));
            }
            false => {}
        }
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_without_an_end_is_cut_and_the_next_one_is_not() {
        let mut columns = 0;
        let first = cut(&"x".repeat(MAX_COLUMNS + 5), &mut columns);
        assert!(first.starts_with("xxx") && first.ends_with("have all of it)"), "{}", first.len());
        assert_eq!(cut("more", &mut columns), "");
        assert_eq!(cut("\nnext", &mut columns), "\nnext");
    }
}
