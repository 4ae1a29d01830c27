//! The kill test: a server process is killed with SIGKILL at every point of a run, and started again. Two runs are killed: the
//! fan-out of a model, and one whose executor asks no model and whose tools change values and logs.

mod fan_out;
mod steps;

use std::sync::{
    Mutex,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use serde_json::{Value, json};

use crate::{
    http::{get, post},
    process::{Case, Server},
    prove::{Dice, say, setting},
};

/// The point at which the test itself kills the server: as soon as it has been told the run's id.
const ANSWERED: &str = "answered";

/// What the model is told of a call that nobody knows the outcome of.
pub(crate) const IN_DOUBT: &str = "in doubt: the server process ended during this call, so it may or may not have taken effect. Check before \
                        you repeat it.";

/// A run that is killed. `inspect` says what is wrong after a crash and restart, or what came of it: it gets the root's id
/// and result.
struct Scenario<R> {
    config: &'static str,
    request: Value,
    inspect: fn(&Case, &Server, &str, &Value) -> Result<R, String>,
}

/// Runs a scenario with a kill at `point`, starts the server again, and says what is wrong, or what came of it.
fn crash_at<R>(scenario: &Scenario<R>, point: Option<&str>, settings: &Value) -> Result<R, String> {
    let case = Case::new(scenario.config);
    let mut told = None;
    if let Some(point) = point {
        let mut first = settings.clone();
        first["kill"] = json!(point);
        let mut server = case.start(&first);
        let mut passed_by = false;
        if let Ok(answer) = post(&server.url, "/v1/runs", &scenario.request) {
            told = answer.header("drawloom-run-id").map(str::to_owned);
            // Until the server dies, which cuts the answer off, or the run ends.
            passed_by = point != ANSWERED && answer.json().is_ok();
        }
        if passed_by || point == ANSWERED {
            server.kill();
        }
        server.ended();
        if passed_by {
            return Err(format!("the run ended without passing {point:?}"));
        }
    }
    let server = case.start(settings);
    let answer = post(&server.url, "/v1/runs", &scenario.request)
        .map_err(|error| format!("no answer after the restart: {error}"))?;
    let run = answer.header("drawloom-run-id").map(str::to_owned).ok_or("an answer without an id")?;
    if let Some(told) = told
        && told != run
    {
        return Err(format!("the id {told} was handed out and is not known any more: the same key gives {run}"));
    }
    let result = answer.json().map_err(|error| format!("no result: {error}; {}", get(&server.url, "/v1/runs")))?;
    (scenario.inspect)(&case, &server, &run, &result)
}

/// Every journal can be folded again, and today's decisions are the recorded ones.
fn check_replay(server: &Server, run: &str) -> Result<(), String> {
    let replay = get(&server.url, &format!("/v1/runs/{run}/replay"));
    match replay["ok"] == true && replay["fold_error"].is_null() {
        true => Ok(()),
        false => Err(format!("the replay of {run} differs: {replay}")),
    }
}

/// No turn is journaled twice, and none was asked again after it was journaled.
pub(crate) fn check_turns(run: &str, events: &[(String, Value)], calls: &[String]) -> Result<(), String> {
    for turn in 1..=10u64 {
        let count = |name: &str| events.iter().filter(|(event, data)| event == name && data["turn"] == turn).count();
        let asked = calls.iter().filter(|line| line.starts_with(&format!("{run} {turn} "))).count();
        if count("message") > 1 {
            return Err(format!("turn {turn} of {run} is journaled twice"));
        }
        // A run that was stopped may have been stopped while the model was answering.
        let stopped = usize::from(events.iter().any(|(event, _)| event == "error") && count("message") == 0);
        if asked > count("message") + count("turn_reset") + stopped {
            return Err(format!("turn {turn} of {run} was asked {asked} times"));
        }
    }
    Ok(())
}

/// A run's journaled events: names and data.
pub(crate) fn events(url: &str, run: &str) -> Vec<(String, Value)> {
    let answer = crate::http::send(url, "GET", &format!("/v1/runs/{run}/events"), &[], "").expect("a stream");
    let text = answer.text().expect("a whole stream");
    text.split("\n\n")
        .filter_map(|frame| {
            let field = |name: &str| frame.lines().find_map(|line| line.strip_prefix(name));
            Some((field("event: ")?.to_owned(), serde_json::from_str(field("data: ")?).ok()?))
        })
        .collect()
}

/// Every point of an uncrashed run, each once.
fn points<R>(scenario: &Scenario<R>, settings: &Value) -> Vec<String> {
    let case = Case::new(scenario.config);
    let mut settings = settings.clone();
    settings["points"] = json!(case.path("points"));
    let server = case.start(&settings);
    let answer = post(&server.url, "/v1/runs", &scenario.request).expect("an answer");
    let result = answer.json().expect("a result");
    assert_eq!(result["status"], "completed", "{result}");
    let mut points = case.lines("points");
    points.push(ANSWERED.into());
    points.sort();
    points.dedup();
    points
}

/// Does `work` on every item, some at a time, until one says to stop.
pub(crate) fn for_each<T: Sync>(items: &[T], work: impl Fn(&T) -> bool + Sync) {
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if stop.load(Ordering::Relaxed) || work(item) {
                        stop.store(true, Ordering::Relaxed);
                    }
                }
            });
        }
    });
}

/// How many points a scenario has, and at how many of them a server was killed.
struct Killed {
    points: usize,
    killed: usize,
}

/// Kills a server at points of a scenario, by chance when there are more than `most`. Each crash must come to what `expect`
/// says; it is made from the uncrashed run and all points.
fn kill_everywhere<R>(
    scenario: &Scenario<R>,
    most: usize,
    expect: impl for<'a> FnOnce(&'a R, &'a [String]) -> Box<dyn Fn(&str) -> R + Sync + 'a>,
) -> Killed
where
    R: PartialEq + std::fmt::Debug + Sync,
{
    let settings = json!({});
    let whole = crash_at(scenario, None, &settings).expect("an uncrashed run");
    let all = points(scenario, &settings);
    let expected = expect(&whole, &all);
    let mut chosen = all.clone();
    let mut dice = Dice::new(setting("PROVE_SEED", 11));
    while chosen.len() > most {
        chosen.swap_remove(dice.roll(0, chosen.len() as u64) as usize);
    }
    let wrong = Mutex::new(Vec::new());
    for_each(&chosen, |point| {
        let wanted = expected(point);
        match crash_at(scenario, Some(point), &settings) {
            Ok(report) if report == wanted => {}
            other => {
                wrong.lock().expect("no panic while held").push(format!("{point}: {other:?}\n  wanted {wanted:?}"))
            }
        }
        false
    });
    let wrong = wrong.into_inner().expect("no panic while held");
    assert!(wrong.is_empty(), "{} of {} points:\n{}", wrong.len(), chosen.len(), wrong.join("\n"));
    Killed { points: all.len(), killed: chosen.len() }
}

/// A mistake is caught when some point shows it. Points with `first` in their names are tried first.
fn is_caught<R: Sync>(scenario: &Scenario<R>, fault: &str, first: &str) -> Option<String> {
    let settings = json!({ "fault": fault });
    let mut points = points(scenario, &settings);
    points.sort_by_key(|point| !point.contains(first));
    let caught = Mutex::new(None);
    for_each(&points, |point| match crash_at(scenario, Some(point), &settings) {
        // A point whose name depends on the process is not reached again; that is no finding.
        Err(why) if !why.contains("without passing") => {
            *caught.lock().expect("no panic while held") = Some(format!("{point}: {why}"));
            true
        }
        Ok(_) | Err(_) => false,
    });
    caught.into_inner().expect("no panic while held")
}

#[test]
fn killed_at_any_point_a_run_ends_as_if_nothing_had_happened() {
    let most = setting("PROVE_POINTS", 30) as usize;
    let ((fan_out, in_doubt), steps) = (fan_out::kill(most), steps::kill(most));
    let (points, killed) = (fan_out.points + steps.points, fan_out.killed + steps.killed);
    assert!(points > 400, "only {points} points");
    say(&format!(
        "fan-out of a model: killed at {} of {} points; at {in_doubt} of them a call that must not be repeated was under way, and the \
         model was told that it is in doubt",
        fan_out.killed, fan_out.points
    ));
    say(&format!(
        "executor without a model: killed at {} of {} points; nothing is in doubt, every effect and cost counted once",
        steps.killed, steps.points
    ));
    say(&format!(
        "killed at {killed} of {points} points; every run ended as it does without a kill, but for the calls in doubt"
    ));
}

/// Says a number to whoever runs the tests, past the capture of their output.
pub(crate) fn report_number(text: &str) {
    use std::io::Write as _;
    writeln!(std::io::stderr(), "durability: {text}").expect("stderr");
}
