//! Writes a page down, tag by tag.

use drawloom_net::guarded::Address;

use super::Page;

/// Most bytes of text that are written down; a page of short links behind a long address has far more than its source.
pub(crate) const MOST_TEXT: usize = 4 * 1024 * 1024;

/// The longest address of a link, and the longest title, in bytes.
const LONGEST_TARGET: usize = 500;
const LONGEST_TITLE: usize = 1000;

/// Elements that are not for reading, with everything in them. What else can be in a `head` shows nothing by itself.
const UNSEEN: &[&str] =
    &["canvas", "iframe", "math", "noscript", "object", "script", "style", "svg", "template", "title"];

/// Elements that stand apart from what is around them.
const APART: &[&str] = &[
    "article",
    "aside",
    "blockquote",
    "dl",
    "fieldset",
    "figure",
    "form",
    "footer",
    "header",
    "main",
    "nav",
    "ol",
    "p",
    "section",
    "table",
    "ul",
];

/// Elements that begin a line.
const LINE: &[&str] = &["address", "caption", "dd", "details", "div", "dt", "figcaption", "option", "summary", "tr"];

/// The deepest list that is set in.
const DEEPEST_LIST: usize = 8;

pub(super) struct Writer<'a> {
    base: &'a Address,
    out: String,
    title: String,
    in_title: bool,
    /// The element that hides what is in it, and how often it is open.
    hidden_by: Option<(String, u32)>,
    /// Line ends that are owed before the next text.
    owed: usize,
    /// White space that is owed before the next text.
    space: bool,
    preformatted: u32,
    /// The open lists: the next number, or nothing for bullets.
    lists: Vec<Option<u32>>,
    /// Where the open link leads, and where its text began.
    link: Option<(String, usize)>,
}

impl<'a> Writer<'a> {
    pub(super) fn new(base: &'a Address) -> Self {
        Self {
            base,
            out: String::new(),
            title: String::new(),
            in_title: false,
            hidden_by: None,
            owed: 0,
            space: false,
            preformatted: 0,
            lists: Vec::new(),
            link: None,
        }
    }

    pub(super) fn start(&mut self, name: &str, attribute: &dyn Fn(&str) -> Option<String>) {
        // A body shows, whatever was not closed before it.
        if name == "body" {
            self.hidden_by = None;
        }
        // Only the page's own title; pictures have titles too.
        self.in_title = name == "title" && self.title.is_empty() && self.hidden_by.is_none();
        if let Some((by, count)) = &mut self.hidden_by {
            *count += u32::from(by == name);
            return;
        }
        if UNSEEN.contains(&name) {
            self.hidden_by = Some((name.to_owned(), 1));
            return;
        }
        match name {
            "br" => self.owe(1),
            "hr" => {
                self.owe(2);
                self.push("---");
                self.owe(2);
            }
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => {
                self.owe(2);
                let level = usize::from(name.as_bytes()[1] - b'0');
                self.push(&"#".repeat(level));
                self.space = true;
            }
            "ul" | "ol" => {
                self.owe(if self.lists.is_empty() { 2 } else { 1 });
                self.lists.push((name == "ol").then_some(1));
            }
            "li" => self.item(),
            "pre" => {
                self.owe(2);
                self.push("```");
                self.owe(1);
                self.preformatted += 1;
            }
            "code" if self.preformatted == 0 => self.push("`"),
            "td" | "th" if self.owed == 0 && !self.out.is_empty() && !self.out.ends_with('\n') => {
                self.out.push_str(" | ");
                self.space = false;
            }
            "a" => {
                self.close_link();
                if let Some(target) = attribute("href").and_then(|href| self.target(&href)) {
                    self.settle();
                    self.link = Some((target, self.out.len()));
                }
            }
            "img" => {
                if let Some(alt) = attribute("alt").filter(|alt| !alt.trim().is_empty()) {
                    self.text(&format!("[image: {}]", alt.trim()));
                }
            }
            _ if APART.contains(&name) => self.owe(2),
            _ if LINE.contains(&name) => self.owe(1),
            _ => {}
        }
    }

    /// Whether nothing more can be written.
    pub(super) fn is_full(&self) -> bool {
        self.out.len() > MOST_TEXT
    }

    /// Whether an element follows the rules of pictures and formulas, where it can be closed in its own tag.
    pub(super) fn is_foreign(&self, name: &str) -> bool {
        let foreign = |name: &str| matches!(name, "svg" | "math");
        foreign(name) || self.hidden_by.as_ref().is_some_and(|(by, _)| foreign(by))
    }

    pub(super) fn end(&mut self, name: &str) {
        if let Some((by, count)) = &mut self.hidden_by {
            *count -= u32::from(by == name);
            if *count == 0 {
                self.hidden_by = None;
            }
            self.in_title = false;
            return;
        }
        match name {
            "a" => self.close_link(),
            "pre" if self.preformatted > 0 => {
                self.preformatted -= 1;
                self.owe(1);
                self.push("```");
                self.owe(2);
            }
            "code" if self.preformatted == 0 => {
                self.space = false;
                self.push("`");
            }
            "ul" | "ol" => {
                self.lists.pop();
                self.owe(if self.lists.is_empty() { 2 } else { 1 });
            }
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => self.owe(2),
            "li" => self.owe(1),
            _ if APART.contains(&name) => self.owe(2),
            _ if LINE.contains(&name) => self.owe(1),
            _ => {}
        }
    }

    pub(super) fn text(&mut self, text: &str) {
        if self.in_title {
            self.title.push_str(text);
        }
        if self.hidden_by.is_some() {
            return;
        }
        if self.preformatted > 0 {
            self.settle();
            self.out.push_str(text);
            return;
        }
        for (index, word) in text.split(|c: char| c.is_whitespace()).enumerate() {
            self.space |= index > 0;
            if !word.is_empty() {
                self.push(word);
            }
        }
    }

    pub(super) fn finish(mut self) -> Page {
        self.close_link();
        let cut = self.is_full();
        self.out.truncate(self.out.floor_char_boundary(MOST_TEXT));
        let mut title = self.title.split_whitespace().collect::<Vec<_>>().join(" ");
        if title.len() > LONGEST_TITLE {
            title.truncate(title.floor_char_boundary(LONGEST_TITLE));
            title.push('…');
        }
        Page { title: (!title.is_empty()).then_some(title), text: self.out.trim().to_owned(), cut }
    }

    /// At least so many line ends come before the next text.
    fn owe(&mut self, lines: usize) {
        self.owed = self.owed.max(lines);
        self.space = false;
    }

    fn push(&mut self, text: &str) {
        self.settle();
        self.out.push_str(text);
    }

    /// Writes what is owed.
    fn settle(&mut self) {
        if self.owed > 0 {
            let there = self.out.bytes().rev().take(self.owed).take_while(|byte| *byte == b'\n').count();
            let begun = !self.out.is_empty();
            self.out.extend(std::iter::repeat_n('\n', if begun { self.owed.saturating_sub(there) } else { 0 }));
        } else if self.space && !self.out.is_empty() && !self.out.ends_with(char::is_whitespace) {
            self.out.push(' ');
        }
        (self.owed, self.space) = (0, false);
    }

    fn item(&mut self) {
        self.owe(1);
        let depth = self.lists.len().saturating_sub(1).min(DEEPEST_LIST);
        let mark = match self.lists.last_mut() {
            Some(Some(number)) => {
                *number += 1;
                format!("{}.", *number - 1)
            }
            Some(None) | None => "-".into(),
        };
        self.push(&format!("{}{mark}", "  ".repeat(depth)));
        self.space = true;
    }

    /// Where a link leads, if that is anywhere outside this page and no longer than what people would write down.
    fn target(&self, href: &str) -> Option<String> {
        self.any_target(href).filter(|target| target.len() <= LONGEST_TARGET)
    }

    fn any_target(&self, href: &str) -> Option<String> {
        let href = href.trim();
        if href.is_empty() || href.starts_with('#') {
            return None;
        }
        if href.starts_with("mailto:") {
            return Some(href.to_owned());
        }
        self.base.join(href).ok().map(|address| address.as_str().to_owned())
    }

    fn close_link(&mut self) {
        let Some((target, from)) = self.link.take() else { return };
        let text = self.out.get(from..).unwrap_or_default().trim().to_owned();
        if text.is_empty() {
            return;
        }
        let lead = self.out[from..].len() - self.out[from..].trim_start().len();
        self.out.truncate(from + lead);
        self.out.push_str(&format!("[{text}]({target})"));
    }
}
