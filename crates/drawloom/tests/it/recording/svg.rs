//! Pictures of a terminal as one animated SVG.

use std::{collections::BTreeMap, fmt::Write as _};

const LINE: usize = 19;
const COLUMN: f32 = 8.43;
const MARGIN: usize = 16;
/// The title bar of the window.
const BAR: usize = 34;
/// How long the last picture stays.
const REST_MS: u128 = 6_000;

/// The screen at one moment: lines of pieces that look alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Picture(Vec<Vec<Piece>>);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Piece {
    classes: String,
    column: usize,
    text: String,
}

impl Picture {
    /// Reads what `tmux capture-pane -e` prints.
    pub(super) fn of(captured: &str) -> Self {
        let mut style = Style::default();
        let mut lines: Vec<Vec<Piece>> = captured.lines().map(|line| pieces(line, &mut style)).collect();
        while lines.last().is_some_and(Vec::is_empty) {
            lines.pop();
        }
        Self(lines)
    }
}

#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Style {
    bold: bool,
    dim: bool,
    colour: Option<u8>,
}

impl Style {
    /// Takes the numbers of one escape sequence that ends with `m`.
    fn take(&mut self, numbers: &str) {
        for number in numbers.split(';') {
            match number.parse::<u8>().unwrap_or(0) {
                0 => *self = Self::default(),
                1 => self.bold = true,
                2 => self.dim = true,
                22 => (self.bold, self.dim) = (false, false),
                colour @ 30..=37 => self.colour = Some(colour - 30),
                39 => self.colour = None,
                colour @ 90..=97 => self.colour = Some(colour - 90),
                _ => {}
            }
        }
    }

    fn classes(&self) -> String {
        let colour = self.colour.map(|colour| format!("c{colour}"));
        let parts = [self.bold.then(|| "b".to_owned()), self.dim.then(|| "d".to_owned()), colour];
        parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
    }
}

fn pieces(line: &str, style: &mut Style) -> Vec<Piece> {
    let mut found = Vec::new();
    let mut column = 0;
    for part in line.split('\u{1b}') {
        let text = match part.strip_prefix('[').and_then(|rest| rest.split_once('m')) {
            Some((numbers, text)) => {
                style.take(numbers);
                text
            }
            None => part,
        };
        let width = text.chars().count();
        let blank = text.chars().take_while(|character| *character == ' ').count();
        if blank < width {
            let text = text.trim().to_owned();
            found.push(Piece { classes: style.classes(), column: column + blank, text });
        }
        column += width;
    }
    found
}

/// One SVG that shows the pictures in turn. Each line that differs from all others is in it once.
pub(super) fn render(pictures: &[(u128, Picture)]) -> String {
    let rows = pictures.iter().map(|(_, picture)| picture.0.len()).max().unwrap_or(1);
    let (width, height) = (80.0 * COLUMN + 2.0 * MARGIN as f32, rows * LINE + BAR + MARGIN);
    let mut lines: BTreeMap<&Vec<Piece>, usize> = BTreeMap::new();
    for line in pictures.iter().flat_map(|(_, picture)| &picture.0).filter(|line| !line.is_empty()) {
        let next = lines.len();
        lines.entry(line).or_insert(next);
    }
    let total = pictures.last().map_or(0, |(at, _)| *at) + REST_MS;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height}\" width=\"{width:.0}\" height=\"{height}\" \
         font-family=\"ui-monospace,SFMono-Regular,Menlo,Consolas,monospace\" font-size=\"14\">\n\
         <title>A lead and six reviewers at work in a terminal</title>\n<style>\ntext{{fill:#d5dae3;white-space:pre}}.b{{font-weight:700}}\
         .d{{opacity:.6}}.c1{{fill:#ff7b72}}.c2{{fill:#7ee787}}.c3{{fill:#f2cc60}}.c4{{fill:#79c0ff}}.c5{{fill:#d2a8ff}}.c6{{fill:#76e3ea}}\n\
         .p{{visibility:hidden;animation:{total}ms steps(1,end) infinite}}\n"
    );
    let share = |at: u128| at as f64 * 100.0 / total as f64;
    for (index, (at, _)) in pictures.iter().enumerate() {
        let from = if index == 0 { 0.0 } else { share(*at) };
        let to = pictures.get(index + 1).map_or(100.0, |(next, _)| share(*next));
        let before = if from > 0.0 { "0%{visibility:hidden}" } else { "" };
        let after = if to < 100.0 { format!("{to:.2}%{{visibility:hidden}}") } else { String::new() };
        writeln!(svg, "@keyframes k{index}{{{before}{from:.2}%{{visibility:visible}}{after}}}").expect("text");
        writeln!(svg, "#p{index}{{animation-name:k{index}}}").expect("text");
    }
    let last = pictures.len().saturating_sub(1);
    write!(
        svg,
        "@media (prefers-reduced-motion:reduce){{.p{{animation:none}}#p{last}{{visibility:visible}}}}\n</style>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#0d1117\"/>\n"
    )
    .expect("text");
    for (place, colour) in ["#ff5f57", "#febc2e", "#28c840"].iter().enumerate() {
        writeln!(svg, "<circle cx=\"{}\" cy=\"17\" r=\"5.5\" fill=\"{colour}\"/>", 20 + place * 18).expect("text");
    }
    svg.push_str("<defs>\n");
    let mut numbered: Vec<_> = lines.iter().map(|(line, number)| (*number, *line)).collect();
    numbered.sort_unstable_by_key(|(number, _)| *number);
    for (number, line) in numbered {
        write!(svg, "<text id=\"l{number}\">").expect("text");
        for piece in line {
            let x = MARGIN as f32 + piece.column as f32 * COLUMN;
            let classes = match piece.classes.as_str() {
                "" => String::new(),
                classes => format!(" class=\"{classes}\""),
            };
            // The length keeps columns in line where a font has other widths.
            let length = piece.text.chars().count() as f32 * COLUMN;
            write!(svg, "<tspan x=\"{x:.1}\" textLength=\"{length:.1}\"{classes}>{}</tspan>", escaped(&piece.text))
                .expect("text");
        }
        svg.push_str("</text>\n");
    }
    svg.push_str("</defs>\n");
    for (index, (_, picture)) in pictures.iter().enumerate() {
        write!(svg, "<g class=\"p\" id=\"p{index}\">").expect("text");
        for (row, line) in picture.0.iter().enumerate().filter(|(_, line)| !line.is_empty()) {
            let y = BAR + (row + 1) * LINE - 5;
            write!(svg, "<use href=\"#l{}\" y=\"{y}\"/>", lines[line]).expect("text");
        }
        svg.push_str("</g>\n");
    }
    svg.push_str("</svg>\n");
    svg
}

/// The text of the last picture, as the terminal had it.
pub(super) fn last_text(svg: &str) -> String {
    let mut lines: BTreeMap<&str, String> = BTreeMap::new();
    let line = regex::Regex::new("<text id=\"(l[0-9]+)\">(.*)</text>").expect("a pattern");
    let piece = regex::Regex::new("<tspan x=\"([0-9.]+)\"[^>]*>([^<]*)</tspan>").expect("a pattern");
    for found in line.captures_iter(svg) {
        let mut text = String::new();
        for piece in piece.captures_iter(found.get(2).expect("its pieces").as_str()) {
            let x: f32 = piece[1].parse().expect("a number");
            let column = ((x - MARGIN as f32) / COLUMN).round() as usize;
            text.extend(std::iter::repeat_n(' ', column.saturating_sub(text.chars().count())));
            text.push_str(&piece[2].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"));
        }
        lines.insert(found.get(1).expect("its name").as_str(), text);
    }
    let picture = svg.lines().rfind(|line| line.starts_with("<g class=\"p\"")).expect("a picture");
    let row = regex::Regex::new("href=\"#(l[0-9]+)\" y=\"([0-9]+)\"").expect("a pattern");
    let mut rows: Vec<String> = Vec::new();
    for found in row.captures_iter(picture) {
        let y: usize = found[2].parse().expect("a number");
        rows.resize((y + 5 - BAR) / LINE - 1, String::new());
        rows.push(lines[found.get(1).expect("a line").as_str()].clone());
    }
    rows.join("\n")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
