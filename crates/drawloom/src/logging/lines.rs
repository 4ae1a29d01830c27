//! Log lines on their way to stderr. A server's lines are gathered, and a thread masks and writes them, because a run writes two: its
//! own threads only format them. Warnings and errors are written before the call returns, with all lines before them, so that a crash
//! right after loses none; of other lines it can lose those of the last moment.

use std::{
    borrow::Cow,
    io::{self, Write},
    mem,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use tracing::Level;

use super::redactor;

/// How long lines are gathered before they are written.
const GATHERED_FOR: Duration = Duration::from_millis(20);

/// Limit of the buffer. The thread that reaches it writes the buffer itself: a slow reader of stderr blocks the server, and the buffer does not grow.
const MOST_WAITING: usize = 256 * 1024;

/// Where lines go.
pub(super) struct Lines<W> {
    waiting: Mutex<String>,
    /// Lines wait.
    some: Condvar,
    /// Held while lines are taken and written, so that they stay in order.
    to: Mutex<W>,
    in_background: AtomicBool,
}

impl<W: Write + Send + 'static> Lines<W> {
    pub(super) fn new(to: W) -> Arc<Self> {
        Arc::new(Self {
            waiting: Mutex::default(),
            some: Condvar::new(),
            to: Mutex::new(to),
            in_background: AtomicBool::new(false),
        })
    }

    /// Lets a thread write from now on. Without it, each line is written where it is logged.
    pub(super) fn write_in_background(self: &Arc<Self>) -> io::Result<()> {
        let lines = Arc::clone(self);
        thread::Builder::new().name("log".into()).spawn(move || lines.write_for_ever())?;
        self.in_background.store(true, Ordering::Release);
        Ok(())
    }

    /// Adds a whole line, with its line break.
    pub(super) fn add(&self, level: Level, line: &str) {
        let mut waiting = locked(&self.waiting);
        let is_first = waiting.is_empty();
        waiting.push_str(line);
        let is_full = waiting.len() >= MOST_WAITING;
        drop(waiting);
        let at_once = level <= Level::WARN || is_full || !self.in_background.load(Ordering::Acquire);
        if at_once {
            self.flush();
        } else if is_first {
            self.some.notify_one();
        }
    }

    /// Writes all lines that wait.
    pub(super) fn flush(&self) {
        let mut to = locked(&self.to);
        let lines = mem::take(&mut *locked(&self.waiting));
        if !lines.is_empty() {
            // A failed write to stderr cannot be reported anywhere else.
            drop(to.write_all(masked(&lines).as_bytes()).and_then(|()| to.flush()));
        }
    }

    fn write_for_ever(&self) {
        loop {
            let mut waiting = locked(&self.waiting);
            while waiting.is_empty() {
                waiting = self.some.wait(waiting).unwrap_or_else(PoisonError::into_inner);
            }
            // A whole pause, whatever wakes it: each wake-up costs more than a line.
            drop(self.some.wait_timeout_while(waiting, GATHERED_FOR, |waiting| waiting.len() < MOST_WAITING));
            self.flush();
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The lines without secrets. Each is masked apart, so that no pattern reaches from one into the next.
fn masked(lines: &str) -> Cow<'_, str> {
    let redactor = redactor();
    if !redactor.suspects(lines) {
        return lines.into();
    }
    let mut all = String::with_capacity(lines.len());
    for line in lines.split_inclusive('\n') {
        let mut text = line.to_owned();
        redactor.mask(&mut text);
        // A key that goes to the end of the text takes the end of the line with it.
        if line.ends_with('\n') && !text.ends_with('\n') {
            text.push('\n');
        }
        all.push_str(&text);
    }
    all.into()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Says what was written, piece by piece.
    struct Told(mpsc::Sender<String>);

    impl Write for Told {
        fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
            self.0.send(String::from_utf8_lossy(piece).into_owned()).expect("the test listens");
            Ok(piece.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_thread_writes_ordinary_lines_and_a_warning_takes_those_before_it_along() {
        let (told, heard) = mpsc::channel();
        let lines = Lines::new(Told(told));
        lines.write_in_background().expect("a thread");
        lines.add(Level::INFO, "one\n");
        assert_eq!(heard.recv().expect("a line"), "one\n");
        lines.add(Level::INFO, "two\n");
        lines.add(Level::WARN, "three\n");
        // Either the thread was quicker with the second line, or both are one piece; they are written when `add` returns.
        let written: String = heard.try_iter().collect();
        assert_eq!(written, "two\nthree\n");
    }

    #[test]
    fn lines_of_many_threads_are_whole_and_in_the_order_of_each() {
        let (told, heard) = mpsc::channel();
        let lines = Lines::new(Told(told));
        lines.write_in_background().expect("a thread");
        thread::scope(|scope| {
            for number in 0..4 {
                let lines = &lines;
                scope.spawn(move || {
                    for line in 0..5_000 {
                        let level = if line % 997 == 0 { Level::ERROR } else { Level::INFO };
                        lines.add(level, &format!("{number} {line} and a text that is about as long as usual\n"));
                    }
                });
            }
        });
        lines.flush();
        let written: String = heard.try_iter().collect();
        let mut next = [0; 4];
        for line in written.lines() {
            let mut words = line.split(' ');
            let mut number = || words.next().and_then(|word| word.parse::<usize>().ok()).expect("a number");
            let (thread, line) = (number(), number());
            assert_eq!(next[thread], line);
            next[thread] += 1;
        }
        assert_eq!(next, [5_000; 4]);
    }

    #[test]
    fn without_a_thread_each_line_is_written_at_once() {
        let (told, heard) = mpsc::channel();
        let lines = Lines::new(Told(told));
        lines.add(Level::DEBUG, "one\n");
        assert_eq!(heard.try_recv(), Ok("one\n".to_owned()));
    }
}
