//! Walks a value along a schema.

use std::cmp::Ordering;

use drawloom_contract::suggest::closest;
use serde_json::{Map, Number, Value};

use crate::validate::{
    compile::{Kind, Kinds, Node, Object, Tree},
    guess::guess,
    problem::{Problem, Step},
};

/// Every problem of `value`, aliases in it renamed.
pub(super) fn run(tree: &Tree, value: &mut Value, most: usize) -> Vec<Problem> {
    let mut walk = Walk { tree, problems: Vec::new(), most, more: 0 };
    walk.node(0, value, Place::Root);
    if walk.more > 0 {
        let message = format!("{} more problems are not listed", walk.more);
        walk.problems.push(Problem { steps: Vec::new(), code: "more_problems", message, hint: None });
    }
    walk.problems
}

/// Where the walk is: a list on the stack, written out only when there is something to say.
#[derive(Clone, Copy)]
enum Place<'a> {
    Root,
    Key(&'a Place<'a>, &'a str),
    Index(&'a Place<'a>, usize),
}

impl Place<'_> {
    fn steps(self) -> Vec<Step> {
        match self {
            Self::Root => Vec::new(),
            Self::Key(parent, key) => parent.with(Step::Key(clip(key))),
            Self::Index(parent, index) => parent.with(Step::Index(index)),
        }
    }

    fn with(self, step: Step) -> Vec<Step> {
        let mut steps = self.steps();
        steps.push(step);
        steps
    }
}

struct Walk<'a> {
    tree: &'a Tree,
    problems: Vec<Problem>,
    /// The most problems that are listed.
    most: usize,
    more: usize,
}

impl<'a> Walk<'a> {
    fn say(
        &mut self,
        place: Place<'_>,
        code: &'static str,
        message: impl FnOnce(&str) -> String,
        hint: Option<String>,
    ) {
        if self.problems.len() >= self.most {
            self.more += 1;
            return;
        }
        let mut problem = Problem { steps: place.steps(), code, message: String::new(), hint };
        let path = problem.path();
        problem.message = message(if path.is_empty() { "the request" } else { &path });
        self.problems.push(problem);
    }

    fn node(&mut self, index: usize, value: &mut Value, place: Place<'_>) {
        let node: &'a Node = &self.tree.nodes[index];
        let kind = Kind::of(value);
        let kinds = if node.alternatives.is_empty() { node.kinds } else { self.tree.kinds(index) };
        if !kinds.accept(kind) {
            return self.wrong_kind(kinds, value, place);
        }
        if let Some(choices) = &node.choices
            && kind != Kind::Null
            && !choices.contains(value)
        {
            return self.not_a_choice(choices.iter(), value, place);
        }
        if !node.alternatives.is_empty() && kind != Kind::Null {
            return self.alternatives(node, kind, value, place);
        }
        match value {
            Value::String(text) => self.text(node, text, place),
            Value::Number(number) => self.number(node, number, place),
            Value::Array(items) => self.list(node, items, place),
            Value::Object(map) => {
                if let Some(object) = &node.object {
                    self.object(object, map, place);
                }
            }
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn wrong_kind(&mut self, kinds: Kinds, value: &Value, place: Place<'_>) {
        let hint = match (Kind::of(value), value) {
            (Kind::Text, Value::String(text)) if kinds.has(Kind::Integer) && text.trim().parse::<i64>().is_ok() => {
                Some("write the number without quotes".into())
            }
            (_, Value::String(text)) if kinds.has(Kind::List) => {
                Some(format!("write it as a list: {}", clip(&as_list(text))))
            }
            (_, _) if kinds.has(Kind::List) => Some("write it as a list, such as [ ... ]".into()),
            _ => None,
        };
        let (wanted, found) = (kinds.describe(), describe(value));
        self.say(place, "wrong_type", |path| format!("{path} must be {wanted}, not {found}"), hint);
    }

    fn not_a_choice<'v>(&mut self, choices: impl Iterator<Item = &'v Value>, value: &Value, place: Place<'_>) {
        let names: Vec<String> =
            choices.map(|choice| choice.as_str().map_or_else(|| choice.to_string(), str::to_owned)).collect();
        let hint = value
            .as_str()
            .and_then(|text| closest(text, names.iter().map(String::as_str)))
            .map(|meant| format!("did you mean {meant}?"));
        let (found, list) = (describe(value), names.join(", "));
        self.say(place, "bad_value", |path| format!("{path} must be one of {list}, not {found}"), hint);
    }

    /// A value that may have one of several forms.
    fn alternatives(&mut self, node: &'a Node, kind: Kind, value: &mut Value, place: Place<'_>) {
        let fitting: Vec<usize> =
            node.alternatives.iter().copied().filter(|way| self.tree.kinds(*way).accept(kind)).collect();
        match (&fitting[..], &*value) {
            ([only], _) => self.node(*only, value, place),
            (ways, Value::Object(map)) if let Some(tag) = self.tag(ways) => {
                let way = ways.iter().copied().find(|way| self.tag_value(*way, tag) == map.get(tag));
                match (way, map.get(tag)) {
                    (Some(way), _) => self.node(way, value, place),
                    (None, Some(found)) => {
                        let choices = ways.iter().filter_map(|way| self.tag_value(*way, tag)).collect::<Vec<_>>();
                        self.not_a_choice(choices.into_iter(), found, Place::Key(&place, tag));
                    }
                    (None, None) => self.missing(tag, place),
                }
            }
            (ways, Value::String(_)) if ways.iter().all(|way| self.tree.nodes[*way].choices.is_some()) => {
                let tree = self.tree;
                let all = ways.iter().flat_map(|way| tree.nodes[*way].choices.iter().flatten());
                if !all.clone().any(|choice| choice == value) {
                    self.not_a_choice(all, value, place);
                }
            }
            (ways, _) => self.best_of(ways, value, place),
        }
    }

    /// Tries every form on a copy. The first that fits is taken; else the one with the fewest problems speaks.
    fn best_of(&mut self, ways: &[usize], value: &mut Value, place: Place<'_>) {
        let mut best: Option<Vec<Problem>> = None;
        for way in ways {
            let mut copy = value.clone();
            let mut walk = Walk { tree: self.tree, problems: Vec::new(), most: self.most, more: 0 };
            walk.node(*way, &mut copy, place);
            if walk.problems.is_empty() {
                *value = copy;
                return;
            }
            if best.as_ref().is_none_or(|best| walk.problems.len() < best.len()) {
                best = Some(walk.problems);
            }
        }
        for problem in best.unwrap_or_default() {
            if self.problems.len() < self.most {
                self.problems.push(problem);
            } else {
                self.more += 1;
            }
        }
    }

    /// The key whose constant value tells these forms apart.
    fn tag(&self, ways: &[usize]) -> Option<&'a str> {
        let (first, rest) = ways.split_first()?;
        let fields = &self.tree.nodes[*first].object.as_ref()?.fields;
        fields.iter().map(|(name, _)| &**name).find(|name| {
            self.tag_value(*first, name).is_some() && rest.iter().all(|way| self.tag_value(*way, name).is_some())
        })
    }

    fn tag_value(&self, way: usize, tag: &str) -> Option<&'a Value> {
        let field = self.tree.nodes[way].object.as_ref()?.find_field(tag)?;
        match self.tree.nodes[field].choices.as_deref() {
            Some([only]) => Some(only),
            _ => None,
        }
    }

    fn text(&mut self, node: &Node, text: &str, place: Place<'_>) {
        let bounds = &node.length;
        if bounds.least.is_some() || bounds.most.is_some() {
            let length = text.chars().count() as u64;
            if let Some(least) = bounds.least.filter(|least| length < *least) {
                let wanted = if least == 1 {
                    "must not be empty".into()
                } else {
                    format!("must have {least} characters or more")
                };
                self.say(place, "too_short", |path| format!("{path} {wanted}"), None);
            }
            if let Some(most) = bounds.most.filter(|most| length > *most) {
                self.say(
                    place,
                    "too_long",
                    |path| format!("{path} has {length} characters, the limit is {most}"),
                    None,
                );
            }
        }
        if let Some(pattern) = &node.pattern
            && !pattern.matches(text)
        {
            let (found, form) = (clip(text), pattern.source());
            self.say(place, "bad_form", |path| format!("{path} must match {form}, not {found:?}"), None);
        }
    }

    fn number(&mut self, node: &Node, number: &Number, place: Place<'_>) {
        if let Some(least) = node.range.least.as_ref().filter(|least| compare(number, least) == Ordering::Less) {
            self.say(place, "out_of_range", |path| format!("{path} must be {least} or more, not {number}"), None);
        }
        if let Some(most) = node.range.most.as_ref().filter(|most| compare(number, most) == Ordering::Greater) {
            self.say(place, "out_of_range", |path| format!("{path} must be {most} or less, not {number}"), None);
        }
    }

    fn list(&mut self, node: &'a Node, items: &mut [Value], place: Place<'_>) {
        let count = items.len() as u64;
        if let Some(least) = node.items.least.filter(|least| count < *least) {
            let wanted =
                if least == 1 { "must not be empty".into() } else { format!("must have {least} items or more") };
            self.say(place, "too_short", |path| format!("{path} {wanted}"), None);
        }
        if let Some(most) = node.items.most.filter(|most| count > *most) {
            // Its items are not looked at: there may be very many.
            return self.say(place, "too_long", |path| format!("{path} has {count} items, the limit is {most}"), None);
        }
        if node.unique {
            let mut seen = std::collections::HashSet::new();
            for (index, item) in items.iter().enumerate() {
                if !seen.insert(item) {
                    self.say(Place::Index(&place, index), "repeated", |path| format!("{path} repeats an item"), None);
                }
            }
        }
        if let Some(node) = node.item {
            for (index, item) in items.iter_mut().enumerate() {
                self.node(node, item, Place::Index(&place, index));
            }
        }
    }

    fn object(&mut self, object: &'a Object, map: &mut Map<String, Value>, place: Place<'_>) {
        let mut spelled: Vec<(&'a str, String)> = Vec::new();
        for key in map.keys() {
            if object.find_field(key).is_none()
                && let Some(field) = object.find_alias(key)
            {
                spelled.push((field, key.clone()));
            }
        }
        spelled.retain(|(field, given)| {
            let value = map.remove(given).unwrap_or_default();
            let free = !map.contains_key(*field);
            if free {
                map.insert((*field).to_owned(), value);
            } else {
                let hint = Some(format!("remove {given}"));
                let message = |path: &str| format!("{path} is another spelling of {field}, and both are given");
                self.say(Place::Key(&place, given), "both_spellings", message, hint);
            }
            free
        });
        for (key, value) in map.iter_mut() {
            if let Some(node) = object.find_field(key) {
                let given = spelled.iter().find(|(field, _)| field == key).map_or(key.as_str(), |(_, given)| given);
                self.node(node, value, Place::Key(&place, given));
            } else if let Some((_, node)) = object.patterns.iter().find(|(pattern, _)| pattern.matches(key)) {
                self.node(*node, value, Place::Key(&place, key));
            } else if object.not_built.iter().any(|name| **name == **key) {
                let place = Place::Key(&place, key);
                let hint = Some(format!("remove {key}"));
                self.say(place, "not_built", |path| format!("{path} is not supported in this version"), hint);
            } else if let Some(node) = object.rest {
                self.node(node, value, Place::Key(&place, key));
            } else {
                self.unknown(object, key, place);
            }
        }
        for name in &object.required {
            if !map.contains_key(&**name) {
                self.missing(name, place);
            }
        }
    }

    fn unknown(&mut self, object: &Object, key: &str, place: Place<'_>) {
        let names = object.fields.iter().map(|(name, _)| &**name);
        let aliases = object.aliases.iter().map(|(alias, _)| &**alias);
        let hint = if let [(pattern, _)] = &object.patterns[..] {
            Some(format!("names must match {}", pattern.source()))
        } else if let Some(meant) = guess(key, names.clone(), aliases) {
            Some(format!("did you mean {meant}?"))
        } else if object.fields.is_empty() {
            Some("no keys are allowed here".into())
        } else {
            Some(format!("known keys: {}", names.collect::<Vec<_>>().join(", ")))
        };
        self.say(Place::Key(&place, key), "unknown_key", |path| format!("{path} is not a known key"), hint);
    }

    fn missing(&mut self, name: &str, place: Place<'_>) {
        self.say(Place::Key(&place, name), "missing_key", |path| format!("{path} is missing"), None);
    }
}

fn compare(left: &Number, right: &Number) -> Ordering {
    let whole = |number: &Number| number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
    match (whole(left), whole(right)) {
        (Some(left), Some(right)) => left.cmp(&right),
        _ => left.as_f64().partial_cmp(&right.as_f64()).unwrap_or(Ordering::Equal),
    }
}

/// The list that a text may mean: its parts between commas, without brackets and quotes around them.
fn as_list(text: &str) -> String {
    let inner = text.trim().trim_start_matches('[').trim_end_matches(']');
    let parts = inner.split(',').map(|part| part.trim().trim_matches(['"', '\'']));
    let quoted: Vec<String> = parts.filter(|part| !part.is_empty()).map(|part| format!("{part:?}")).collect();
    format!("[{}]", quoted.join(", "))
}

/// A value in few words.
fn describe(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{:?}", clip(text)),
        Value::Number(number) => number.to_string(),
        Value::Bool(flag) => flag.to_string(),
        Value::Null | Value::Array(_) | Value::Object(_) => Kind::of(value).name().into(),
    }
}

/// The beginning of a text that may be very long.
fn clip(text: &str) -> String {
    const MOST: usize = 80;
    if text.chars().nth(MOST).is_none() { text.into() } else { text.chars().take(MOST).chain(['…']).collect() }
}
