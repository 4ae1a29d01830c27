//! Draws a board below everything else on the terminal, and takes it away again. Nothing here decides what is shown.

use super::board::{Line, Size};
use crate::output::{Output, Style};

/// A terminal of unknown size is taken to be this large.
const UNKNOWN: Size = Size { columns: 80, rows: 24 };

/// The board as it stands on the terminal: the cursor is at the beginning of the line below it.
pub(crate) struct Screen<'a> {
    output: &'a Output,
    /// The width of each line that is drawn.
    drawn: Vec<usize>,
}

impl<'a> Screen<'a> {
    pub(crate) fn new(output: &'a Output) -> Self {
        Self { output, drawn: Vec::new() }
    }

    /// The size of the terminal now: it may change at any time.
    pub(crate) fn size(&self) -> Size {
        self.output.terminal_size().map_or(UNKNOWN, |(columns, rows)| Size { columns, rows })
    }

    /// Replaces what is drawn.
    pub(crate) fn draw(&mut self, lines: &[Line]) {
        let styled =
            |(piece, style): &(String, Option<Style>)| self.output.beside(style.unwrap_or(Style::Plain), piece);
        let texts: Vec<String> = lines.iter().map(|line| line.0.iter().map(styled).collect()).collect();
        self.output.redraw(self.rows(), &texts);
        self.drawn = lines.iter().map(Line::width).collect();
    }

    /// Takes everything away.
    pub(crate) fn erase(&mut self) {
        if !self.drawn.is_empty() {
            self.output.redraw(self.rows(), &[]);
            self.drawn.clear();
        }
    }

    /// How many rows the board takes. In a terminal that became narrower, its lines take more.
    fn rows(&self) -> usize {
        rows(&self.drawn, self.size().columns.max(1))
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
