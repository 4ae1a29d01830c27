//! What a search finds, kept within bounds: of all results, sorted by path, the first that the call wants to see.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use drawloom_contract::redact::Redactor;
use grep_regex::RegexMatcher;
use grep_searcher::{Searcher, Sink, SinkContext, SinkContextKind, SinkFinish, SinkMatch};

use super::OutputMode;
use crate::walk::LeftOut;

/// Most bytes of a line that are shown.
pub(crate) const LONGEST_LINE: usize = 500;

/// Most bytes that are kept of one file's lines; far more than a call can show.
const MOST_KEPT: usize = 8 * 1024 * 1024;

/// Which results a call wants to see.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    pub(super) mode: OutputMode,
    pub(super) offset: usize,
    pub(super) limit: usize,
}

/// A file that ends early when the caller of the search stops waiting.
pub(super) struct Reader<'a> {
    pub(super) file: File,
    pub(super) stop: &'a AtomicBool,
}

impl Read for Reader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.stop.load(Ordering::Relaxed) { Ok(0) } else { self.file.read(buffer) }
    }
}

/// A line of a result.
pub(super) struct Line {
    pub(super) number: u64,
    pub(super) text: String,
    pub(super) kind: Kind,
}

/// What a line is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Match,
    Context,
    /// A gap before the next line.
    Gap,
    /// The match goes on with this line, which is not kept.
    Cut,
}

/// What was found in one file.
#[derive(Default)]
pub(super) struct InFile {
    /// Matching lines, or matches across lines.
    pub(super) matches: u64,
    /// `content`: each match with the lines around it.
    pub(super) blocks: Vec<Vec<Line>>,
}

/// Everything that was found.
#[derive(Default)]
pub(super) struct Results {
    pub(super) files: BTreeMap<PathBuf, InFile>,
    kept: usize,
    pub(super) total_files: u64,
    pub(super) total_matches: u64,
    pub(super) binary: u64,
    pub(super) cut_lines: u64,
}

/// Takes results from all threads.
pub(super) struct Collector {
    wanted: Wanted,
    redactor: Arc<Redactor>,
    results: Mutex<Results>,
}

impl Collector {
    pub(super) fn new(wanted: Wanted, redactor: Arc<Redactor>) -> Self {
        Self { wanted, redactor, results: Mutex::default() }
    }

    /// Searches one file.
    pub(super) fn search(
        &self,
        searcher: &mut Searcher,
        matcher: &RegexMatcher,
        reader: Reader<'_>,
        path: &Path,
        left_out: &LeftOut,
    ) {
        let most = self.wanted.offset + self.wanted.limit;
        let mut sink = FileSink::new(self.wanted.mode, most, &self.redactor);
        if searcher.search_reader(matcher, reader, &mut sink).is_err() {
            left_out.unreadable();
        }
        if sink.binary || sink.found.matches > 0 {
            self.take(path, sink);
        }
    }

    fn take(&self, path: &Path, sink: FileSink<'_>) {
        let mut results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
        if sink.binary {
            results.binary += 1;
            return;
        }
        results.total_files += 1;
        results.total_matches += sink.found.matches;
        results.cut_lines += sink.cut_lines;
        results.kept += units(self.wanted.mode, &sink.found);
        results.files.insert(path.to_owned(), sink.found);
        // What comes after all that can be shown is only counted.
        let most = self.wanted.offset + self.wanted.limit;
        while let Some(last) = results.files.last_entry() {
            let size = units(self.wanted.mode, last.get());
            if results.kept - size < most {
                break;
            }
            results.files.pop_last();
            results.kept -= size;
        }
    }

    pub(super) fn finish(self) -> Results {
        self.results.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many results a file is.
pub(super) fn units(mode: OutputMode, found: &InFile) -> usize {
    match mode {
        OutputMode::Content => found.blocks.len(),
        OutputMode::FilesWithMatches | OutputMode::Count => 1,
    }
}

struct FileSink<'a> {
    redactor: &'a Redactor,
    mode: OutputMode,
    most: usize,
    found: InFile,
    /// Lines before the next match.
    before: Vec<Line>,
    kept: usize,
    binary: bool,
    cut_lines: u64,
}

impl<'a> FileSink<'a> {
    fn new(mode: OutputMode, most: usize, redactor: &'a Redactor) -> Self {
        let found = InFile::default();
        Self { redactor, mode, most, found, before: Vec::new(), kept: 0, binary: false, cut_lines: 0 }
    }

    fn has_room(&self) -> bool {
        self.mode == OutputMode::Content && self.found.blocks.len() < self.most && self.kept < MOST_KEPT
    }

    fn line(&mut self, number: u64, bytes: &[u8], kind: Kind) -> Line {
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        // Enough to see whether a secret goes on where the line is cut.
        let kept = &bytes[..bytes.len().min(LONGEST_LINE + self.redactor.reach())];
        let mut text = String::from_utf8_lossy(kept).into_owned();
        if bytes.len() > LONGEST_LINE {
            text = self.redactor.mask_part(&text, 0..text.floor_char_boundary(LONGEST_LINE));
            text.push('…');
            self.cut_lines += 1;
        }
        self.kept += text.len();
        Line { number, text, kind }
    }
}

impl Sink for FileSink<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        self.found.matches += 1;
        if self.mode == OutputMode::FilesWithMatches {
            return Ok(false);
        }
        if self.has_room() {
            let mut block = std::mem::take(&mut self.before);
            for (number, line) in (found.line_number().unwrap_or(1)..).zip(found.lines()) {
                if self.kept > MOST_KEPT {
                    block.push(Line { number, text: String::new(), kind: Kind::Cut });
                    break;
                }
                block.push(self.line(number, line, Kind::Match));
            }
            self.found.blocks.push(block);
        }
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> io::Result<bool> {
        let number = context.line_number().unwrap_or(1);
        match context.kind() {
            SinkContextKind::Before | SinkContextKind::Other if self.has_room() => {
                let line = self.line(number, context.bytes(), Kind::Context);
                self.before.push(line);
            }
            // What follows a match that is only counted is not shown either.
            SinkContextKind::After if self.found.matches == self.found.blocks.len() as u64 => {
                let line = self.line(number, context.bytes(), Kind::Context);
                if let Some(block) = self.found.blocks.last_mut() {
                    block.push(line);
                }
            }
            SinkContextKind::Before | SinkContextKind::After | SinkContextKind::Other => {}
        }
        Ok(true)
    }

    fn context_break(&mut self, _: &Searcher) -> io::Result<bool> {
        if self.has_room() {
            self.before.push(Line { number: 0, text: String::new(), kind: Kind::Gap });
        }
        Ok(true)
    }

    fn finish(&mut self, _: &Searcher, finish: &SinkFinish) -> io::Result<()> {
        self.binary = finish.binary_byte_offset().is_some();
        Ok(())
    }
}
