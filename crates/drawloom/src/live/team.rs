//! A team at work: what each run of a tree is doing, folded from the events of the tree.

use std::collections::BTreeMap;

use drawloom_contract::{
    ids::RunId,
    money::{Amount, Cost},
    record::Status,
    time::Timestamp,
    usage::Usage,
};
use drawloom_wire::events::Event;
use serde::Deserialize as _;
use serde_json::Value;

use super::{
    activity::head,
    describe::{describe, tool_head},
};
use crate::output::{LocalTime, first_line};

/// How much of what a run does is kept, in columns.
const GLIMPSE: usize = 200;

/// The runs of a tree, in the order in which they were accepted.
#[derive(Debug, Default)]
pub(crate) struct Team {
    members: Vec<Member>,
    /// What is added to the time of an event to get the time of this machine, in milliseconds.
    skew: Option<i64>,
}

#[derive(Debug, Clone)]
pub(crate) struct Member {
    pub(crate) run: RunId,
    pub(crate) parent: Option<RunId>,
    pub(crate) agent: String,
    /// The beginning of what it was asked, on one line.
    pub(crate) prompt: String,
    /// How many runs of the team are above it.
    pub(crate) depth: usize,
    pub(crate) tokens: u64,
    pub(crate) cost: Option<Cost>,
    /// Whether a part of the cost is assumed.
    pub(crate) is_assumed: bool,
    pub(crate) end: Option<End>,
    state: State,
    /// Calls that are being made, by number.
    calls: BTreeMap<u64, String>,
    /// What calls used so far, by number. The sums above have it.
    reported: BTreeMap<u64, (u64, Cost)>,
    began: Timestamp,
}

/// How a run ended.
#[derive(Debug, Clone)]
pub(crate) struct End {
    pub(crate) status: Status,
    /// Whether it only ended with its parent: the reason is the parent's.
    with_parent: bool,
    /// Why, unless it completed.
    pub(crate) reason: Option<String>,
    at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Queued,
    /// It does this, unless it makes calls.
    Doing(String),
    /// It waits for its children.
    Waiting,
}

/// What an event changed in the list of runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Started(RunId),
    Ended(RunId),
}

impl Team {
    /// Takes in an event, which came at `now`.
    pub(crate) fn apply(&mut self, event: &Event, data: &Value, now: Timestamp) -> Option<Change> {
        let run: RunId = data["run_id"].as_str()?.parse().ok()?;
        let at = self.local(data, now);
        if event.name == "agent" {
            let parent = data["parent_run_id"].as_str().and_then(|parent| parent.parse().ok());
            let above = parent.and_then(|parent| self.find(parent)).map(|above| above.depth + 1);
            self.members.push(Member {
                run,
                parent,
                agent: data["agent"].as_str().unwrap_or_default().to_owned(),
                prompt: first_line(data["prompt"].as_str().unwrap_or_default(), GLIMPSE),
                depth: above.unwrap_or(0),
                tokens: 0,
                cost: None,
                is_assumed: false,
                end: None,
                state: State::Queued,
                calls: BTreeMap::new(),
                reported: BTreeMap::new(),
                began: at,
            });
            return Some(Change::Started(run));
        }
        let member = self.members.iter_mut().find(|member| member.run == run)?;
        member.apply(event, data, at);
        event.is_terminal().then_some(Change::Ended(run))
    }

    /// The event's time on the clock of this machine. The first event is taken to be new.
    fn local(&mut self, data: &Value, now: Timestamp) -> Timestamp {
        let Some(at) = data["at"].as_str().and_then(LocalTime::parse) else { return now };
        let skew = *self.skew.get_or_insert(now.as_millis().saturating_sub(at.as_millis()));
        Timestamp::from_millis(at.as_millis().saturating_add(skew))
    }

    pub(crate) fn find(&self, run: RunId) -> Option<&Member> {
        self.members.iter().find(|member| member.run == run)
    }

    /// The run that was started first, of which all others are children.
    pub(crate) fn lead(&self) -> Option<&Member> {
        self.members.first()
    }

    /// All but the lead.
    pub(crate) fn children(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().skip(1)
    }

    /// The runs in tree order: each followed by its children.
    pub(crate) fn in_tree_order(&self) -> Vec<&Member> {
        let mut order = Vec::with_capacity(self.members.len());
        let mut open: Vec<&Member> = self.lead().into_iter().collect();
        while let Some(member) = open.pop() {
            order.push(member);
            open.extend(self.members.iter().rev().filter(|child| child.parent == Some(member.run)));
        }
        order
    }

    /// What a run is doing now.
    pub(crate) fn doing(&self, member: &Member) -> String {
        let open = self.members.iter().filter(|child| child.parent == Some(member.run) && child.end.is_none()).count();
        match (&member.end, &member.state) {
            (Some(end), _) => end.status.as_str().replace('_', " "),
            (None, _) if open == 1 => "waiting for 1 run".to_owned(),
            (None, _) if open > 1 => format!("waiting for {open} runs"),
            (None, State::Queued) => member.about("queued"),
            (None, _) if !member.calls.is_empty() => {
                let heads: Vec<&str> = member.calls.values().map(String::as_str).collect();
                heads.join("; ")
            }
            (None, State::Waiting) => "waiting".to_owned(),
            (None, State::Doing(what)) => member.about(what),
        }
    }
}

impl Member {
    fn apply(&mut self, event: &Event, data: &Value, at: Timestamp) {
        let doing = |what: &str| State::Doing(what.to_owned());
        match &*event.name {
            "started" => self.state = doing("asking the model"),
            "text" => self.state = doing("writing"),
            "thinking" => self.state = doing("thinking"),
            "message" => self.state = doing("asking the model"),
            "retry" | "turn_reset" => {
                self.state = State::Doing(describe(event, "").map(|(_, text)| text).unwrap_or_default());
            }
            "usage" => {
                let usage = &data["usage"];
                self.tokens = self.tokens.saturating_add(tokens_of(usage));
                if let Some(cost) = amount(&usage["cost"]) {
                    self.cost = Some(self.cost.unwrap_or_default() + cost);
                }
                self.is_assumed |= usage["assumed"].as_bool() == Some(true);
            }
            "tool_call" => {
                let call = data["call"].as_u64().unwrap_or_default();
                self.calls.insert(call, tool_head(&data["tool_use"], GLIMPSE));
            }
            "activity" => self.report(data),
            "tool_result" => {
                self.calls.remove(&data["call"].as_u64().unwrap_or_default());
                self.state = doing("asking the model");
            }
            "waiting" => {
                self.state = match data["on"].is_string() || data["until"].is_string() {
                    true => State::Doing(describe(event, "").map(|(_, text)| text).unwrap_or_default()),
                    false => State::Waiting,
                };
            }
            "done" | "error" => self.finish(data, at),
            _ => {}
        }
    }

    /// Takes in what a call does now, and what it used so far.
    fn report(&mut self, data: &Value) {
        let call = data["call"].as_u64().unwrap_or_default();
        let head = head(data);
        if !head.is_empty() {
            self.calls.insert(call, head);
        }
        let tokens = data["tokens"].as_u64().unwrap_or_default();
        let cost = amount(&data["cost"]);
        let (counted, paid) = self.reported.insert(call, (tokens, cost.unwrap_or_default())).unwrap_or_default();
        self.tokens = self.tokens.saturating_add(tokens).saturating_sub(counted);
        if let Some(cost) = cost {
            let before = self.cost.unwrap_or_default().0;
            self.cost = Some(Cost(before.saturating_add(cost.0).saturating_sub(paid.0)));
        }
    }

    fn finish(&mut self, data: &Value, at: Timestamp) {
        let named = |name: &str| Status::ALL.iter().copied().find(|status| status.as_str() == name);
        let status = data["status"].as_str().and_then(named).unwrap_or(Status::Failed);
        let error = &data["error"];
        let reason = error["message"].as_str().map(|message| match error["code"].as_str() {
            Some(code) => format!("{} ({code})", first_line(message, GLIMPSE)),
            None => first_line(message, GLIMPSE),
        });
        let with_parent = error["code"].as_str() == Some("parent_ended");
        self.end = Some(End { status, with_parent, reason, at });
        if let Ok(usage) = Usage::deserialize(&data["usage"]) {
            self.tokens = usage.total();
        }
        self.cost = amount(&data["cost"]).or(self.cost);
        self.is_assumed |= data["assumed_cost"].is_number();
    }

    /// What it does, and for a child what it was asked: several may have the same agent.
    fn about(&self, doing: &str) -> String {
        match self.depth > 0 && !self.prompt.is_empty() {
            true => format!("{doing} · {}", self.prompt),
            false => doing.to_owned(),
        }
    }

    /// How long it took, or takes until `now`, in milliseconds.
    pub(crate) fn took(&self, now: Timestamp) -> u64 {
        let until = self.end.as_ref().map_or(now, |end| end.at);
        u64::try_from(until.since(self.began).as_millis()).unwrap_or(u64::MAX)
    }

    pub(crate) fn is_queued(&self) -> bool {
        self.end.is_none() && self.state == State::Queued
    }

    /// Whether it ended without completing, for a reason of its own.
    pub(crate) fn has_failed(&self) -> bool {
        self.end.as_ref().is_some_and(|end| end.status != Status::Completed && !end.with_parent)
    }

    /// Whether it ended because its parent was stopped.
    pub(crate) fn ended_with_parent(&self) -> bool {
        self.end.as_ref().is_some_and(|end| end.with_parent)
    }
}

fn amount(value: &Value) -> Option<Cost> {
    serde_json::from_value::<Amount>(value.clone()).ok().map(|amount| amount.0)
}

/// The total tokens of a usage in JSON; 0 if the value is not a usage.
pub(crate) fn tokens_of(usage: &Value) -> u64 {
    Usage::deserialize(usage).unwrap_or_default().total()
}
