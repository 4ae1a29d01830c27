//! The recording in the README: a team at work on a real terminal. `UPDATE_DOCS=1` records it again when it differs; without it, what the command
//! leaves on the screen is compared with the recording's last picture.

mod svg;

use std::{cell::RefCell, fs, time::Instant};

use crate::{docs::workspace, looks::normal, recording::svg::Picture, support::Home, terminal::Terminal};

const COLUMNS: &str = "80";
const COMMAND: &str = "drawloom run lead 'Review the code'";

/// The team. Its model is a script that takes as long as a quick model would.
const TEAM: &str = include_str!("recording/drawloom.yaml");

/// A picture changes at most every so many milliseconds.
const SPACING_MS: u128 = 160;

/// Text that differs from run to run: numbers, ids and the spinner.
fn lasting(screen: &str) -> String {
    let digits = regex::Regex::new(r"[0-9]+").expect("a pattern");
    digits.replace_all(&normal(screen), "0").into_owned()
}

#[test]
fn the_recording_in_the_readme_shows_what_the_command_prints() {
    let home = Home::new();
    home.write("drawloom.yaml", TEAM);
    fs::create_dir(home.path().join("src")).expect("a folder");
    for file in ["login", "cart", "search", "mail", "lib", "price"] {
        home.write(&format!("src/{file}.rs"), "fn main() {}\n");
    }
    home.run(&["trust", "--yes"]).exits(0);
    let terminal = Terminal::open(&home, COLUMNS);
    let pictures = RefCell::new(Vec::<(u128, Picture)>::new());
    terminal.type_line("clear");
    terminal.wait_until("a clear screen", |screen| screen == "$");
    let began = Instant::now();
    terminal.type_line(COMMAND);
    let screen = terminal.wait_until("the end of the run", |screen| {
        let at = began.elapsed().as_millis();
        let mut pictures = pictures.borrow_mut();
        if pictures.last().is_none_or(|(last, _)| at >= last + SPACING_MS) {
            let picture = Picture::of(&terminal.tmux(&["capture-pane", "-p", "-e"]));
            if pictures.last().is_none_or(|(_, last)| *last != picture) {
                pictures.push((at, picture));
            }
        }
        screen.contains("completed, but 1 of 6") && screen.ends_with('$')
    });
    let mut pictures = pictures.into_inner();
    let last = Picture::of(&terminal.tmux(&["capture-pane", "-p", "-e"]));
    pictures.push((began.elapsed().as_millis(), last));

    let file = workspace().join("docs/images/team.svg");
    let recorded = fs::read_to_string(&file).map(|svg| svg::last_text(&svg)).unwrap_or_default();
    let is_current = lasting(&recorded) == lasting(&screen);
    if std::env::var_os("UPDATE_DOCS").is_some() && !is_current {
        fs::create_dir_all(file.parent().expect("a folder")).expect("a writable folder");
        return fs::write(&file, svg::render(&pictures)).expect("a writable file");
    }
    assert_eq!(lasting(&recorded), lasting(&screen), "record it again with UPDATE_DOCS=1");
}
