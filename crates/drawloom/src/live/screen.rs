//! Draws a board below everything else on the terminal, and takes it away again. Nothing here decides what is shown.

use super::board::{Line, Size};
use crate::output::Output;

/// A terminal of unknown size is taken to be this large.
const UNKNOWN: Size = Size { columns: 80, rows: 24 };

/// The board as it stands on the terminal: the cursor is at the beginning of the line below it.
pub(super) struct Screen<'a> {
    output: &'a Output,
    /// The width of each line that is drawn.
    drawn: Vec<usize>,
}

impl<'a> Screen<'a> {
    pub(super) fn new(output: &'a Output) -> Self {
        Self { output, drawn: Vec::new() }
    }

    /// The size of the terminal now: it may change at any time.
    pub(super) fn size(&self) -> Size {
        self.output.terminal_size().map_or(UNKNOWN, |(columns, rows)| Size { columns, rows })
    }

    /// Replaces what is drawn.
    pub(super) fn draw(&mut self, lines: &[Line]) {
        let mut text = self.go_back();
        for line in lines {
            for (piece, style) in &line.0 {
                match style {
                    Some(style) => text.push_str(&self.output.beside(*style, piece)),
                    None => text.push_str(piece),
                }
            }
            // What an earlier, longer line left.
            text.push_str("\x1b[K\r\n");
        }
        text.push_str("\x1b[J");
        self.drawn = lines.iter().map(Line::width).collect();
        self.output.draw(&text);
    }

    /// Takes everything away.
    pub(super) fn erase(&mut self) {
        if !self.drawn.is_empty() {
            let text = format!("{}\x1b[J", self.go_back());
            self.drawn.clear();
            self.output.draw(&text);
        }
    }

    /// Moves the cursor to where the board begins. In a terminal that became narrower, its lines take more rows.
    fn go_back(&self) -> String {
        let columns = self.size().columns.max(1);
        match rows(&self.drawn, columns) {
            0 => "\r".to_owned(),
            rows => format!("\r\x1b[{rows}A"),
        }
    }
}

/// How many rows lines of these widths take.
fn rows(widths: &[usize], columns: usize) -> usize {
    widths.iter().map(|width| width.div_ceil(columns).max(1)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_were_drawn_on_a_wider_terminal_take_more_rows() {
        assert_eq!(rows(&[79, 40, 0], 80), 3);
        assert_eq!(rows(&[79, 40, 0], 40), 4);
        assert_eq!(rows(&[], 80), 0);
    }
}
