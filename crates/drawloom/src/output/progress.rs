//! Bars and spinners, on stderr and only when that is a terminal.

use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::Output;

/// How often what moves is drawn.
const TICK: Duration = Duration::from_millis(100);

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
    pub fn bar(&self, total: u64, what: &str) -> ProgressBar {
        let bar = ProgressBar::with_draw_target(Some(total), self.target())
            .with_style(style("{prefix} [{bar:30}] {pos}/{len} {msg}").progress_chars("=> "))
            .with_prefix(what.to_owned());
        self.tick(&bar);
        bar
    }

    /// A bar that counts bytes to about `total`.
    pub fn bytes_bar(&self, total: u64, what: &str) -> ProgressBar {
        let bar = ProgressBar::with_draw_target(Some(total), self.target())
            .with_style(style("{prefix} [{bar:30}] {binary_bytes}/{binary_total_bytes}").progress_chars("=> "))
            .with_prefix(what.to_owned());
        self.tick(&bar);
        bar
    }

    /// A line that moves while something is waited for.
    pub fn spinner(&self) -> ProgressBar {
        let spinner = ProgressBar::with_draw_target(None, self.target())
            .with_style(style("{spinner} {wide_msg} {elapsed}").tick_chars("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏ "));
        self.tick(&spinner);
        spinner
    }

    /// Lines that move, one for each of several things.
    pub fn lines(&self, count: usize) -> (MultiProgress, Vec<ProgressBar>) {
        let all = MultiProgress::with_draw_target(self.target());
        let lines = (0..count).map(|_| {
            let line = ProgressBar::new_spinner().with_style(style("{spinner} {wide_msg}").tick_chars("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏ "));
            let line = all.add(line);
            self.tick(&line);
            line
        });
        let lines = lines.collect();
        (all, lines)
    }

    fn tick(&self, bar: &ProgressBar) {
        if self.progress {
            bar.enable_steady_tick(TICK);
        }
    }
}
