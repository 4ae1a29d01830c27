//! Bars and spinners, on stderr and only when that is a terminal.

use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::{Output, shown};

/// How often what moves is drawn.
const TICK: Duration = Duration::from_millis(100);

/// A bar or spinner. Its message is a text of others: it is shown in one line, without what a terminal would obey.
pub struct Bar(ProgressBar);

/// Spinners below each other.
pub struct Bars {
    all: MultiProgress,
    lines: Vec<Bar>,
}

impl Bar {
    /// What stands beside it.
    pub fn set_message(&self, text: &str) {
        self.0.set_message(shown(text).replace('\n', " "));
    }

    /// One more is done.
    pub fn advance(&self) {
        self.0.inc(1);
    }

    /// So many are done.
    pub fn set_position(&self, position: u64) {
        self.0.set_position(position);
    }

    /// Removes it while something else is printed.
    pub fn suspend(&self, print: impl FnOnce()) {
        self.0.suspend(print);
    }

    /// It stays, and does not move any more.
    pub fn finish(&self) {
        self.0.finish();
    }

    /// Removes it.
    pub fn clear(&self) {
        self.0.finish_and_clear();
    }
}

impl Bars {
    /// One of them.
    pub fn line(&self, place: usize) -> &Bar {
        &self.lines[place]
    }

    /// Removes all of them.
    pub fn clear(&self) {
        self.lines.iter().for_each(Bar::clear);
        // A terminal that is gone shows nothing.
        drop(self.all.clear());
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("a constant template")
}

impl Output {
    /// Whether bars and spinners are drawn.
    pub fn shows_progress(&self) -> bool {
        self.progress
    }

    fn target(&self) -> ProgressDrawTarget {
        if self.progress { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() }
    }

    /// A bar that counts to `total`.
    pub fn bar(&self, total: u64, what: &str) -> Bar {
        let bar = ProgressBar::with_draw_target(Some(total), self.target())
            .with_style(style("{prefix} [{bar:30}] {pos}/{len} {msg}").progress_chars("=> "))
            .with_prefix(what.to_owned());
        self.tick(&bar);
        Bar(bar)
    }

    /// A bar that counts bytes to about `total`.
    pub fn bytes_bar(&self, total: u64, what: &str) -> Bar {
        let bar = ProgressBar::with_draw_target(Some(total), self.target())
            .with_style(style("{prefix} [{bar:30}] {binary_bytes}/{binary_total_bytes}").progress_chars("=> "))
            .with_prefix(what.to_owned());
        self.tick(&bar);
        Bar(bar)
    }

    /// A line that moves while something is waited for.
    pub fn spinner(&self) -> Bar {
        let spinner = ProgressBar::with_draw_target(None, self.target())
            .with_style(style("{spinner} {wide_msg} {elapsed}").tick_chars("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏ "));
        self.tick(&spinner);
        Bar(spinner)
    }

    /// Lines that move, one for each of several things.
    pub fn lines(&self, count: usize) -> Bars {
        let all = MultiProgress::with_draw_target(self.target());
        let lines = (0..count).map(|_| {
            let line = ProgressBar::new_spinner().with_style(style("{spinner} {wide_msg}").tick_chars("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏ "));
            let line = all.add(line);
            self.tick(&line);
            Bar(line)
        });
        let lines = lines.collect();
        Bars { all, lines }
    }

    fn tick(&self, bar: &ProgressBar) {
        if self.progress {
            bar.enable_steady_tick(TICK);
        }
    }
}
