//! What can be known of a JSON-RPC message that cannot be parsed, or is too long to be kept.

/// The longest id that is looked for, in bytes.
const LONGEST_ID: usize = 1024;

/// Looks for the value of `"id"` in the outermost object of JSON that passes by.
#[derive(Debug, Default)]
pub struct Seeker {
    depth: usize,
    in_text: bool,
    escaped: bool,
    /// The text or bare word at depth one that is being read, with its quotes.
    word: Vec<u8>,
    after_colon: bool,
    key_is_id: bool,
    found: Option<Vec<u8>>,
    asks: bool,
    answers: bool,
}

impl Seeker {
    /// Takes the next bytes.
    pub fn feed(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if self.in_text {
                self.keep(*byte);
                match byte {
                    _ if self.escaped => self.escaped = false,
                    b'\\' => self.escaped = true,
                    b'"' => {
                        self.in_text = false;
                        self.end_word();
                    }
                    _ => {}
                }
                continue;
            }
            match byte {
                b'"' => {
                    self.in_text = true;
                    self.word.clear();
                    self.keep(*byte);
                }
                b'{' | b'[' => {
                    self.depth += 1;
                    if self.depth == 2 {
                        self.after_colon = false;
                    }
                }
                b'}' | b']' => {
                    self.end_word();
                    self.depth = self.depth.saturating_sub(1);
                }
                b':' if self.depth == 1 => self.after_colon = true,
                b',' if self.depth == 1 => {
                    self.end_word();
                    self.after_colon = false;
                    self.key_is_id = false;
                }
                byte if byte.is_ascii_whitespace() => self.end_word(),
                byte => self.keep(*byte),
            }
        }
    }

    /// The id as it stands there, when there was one.
    pub fn id(&self) -> Option<&str> {
        std::str::from_utf8(self.found.as_ref()?).ok()
    }

    /// Whether it has what an answer has, and not what a request has.
    pub fn is_answer(&self) -> bool {
        self.answers && !self.asks
    }

    fn keep(&mut self, byte: u8) {
        if self.depth == 1 && self.word.len() <= LONGEST_ID {
            self.word.push(byte);
        }
    }

    fn end_word(&mut self) {
        if self.depth == 1 && !self.word.is_empty() {
            match self.after_colon {
                true if self.key_is_id => self.found = Some(self.word.clone()),
                true => {}
                false => {
                    self.key_is_id = self.word == br#""id""#;
                    self.asks |= self.word == br#""method""#;
                    self.answers |= [&br#""result""#[..], br#""error""#].contains(&&*self.word);
                }
            }
        }
        self.word.clear();
    }
}
