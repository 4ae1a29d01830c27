//! A schema as a compact tree: one node a schema, references resolved, keywords read once.

use std::collections::HashMap;

use serde_json::{Map, Number, Value};

use crate::validate::pattern::Pattern;

/// A schema that this validator cannot honour whole.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadSchema {
    /// A keyword that it does not know.
    #[error("the schema uses {keyword:?} at {place}, which the validator does not know")]
    Keyword {
        /// The keyword.
        keyword: String,
        /// Where.
        place: String,
    },
    /// A keyword with a value that it cannot use.
    #[error("{keyword:?} at {place} has a value that the validator cannot use")]
    Value {
        /// The keyword.
        keyword: String,
        /// Where.
        place: String,
    },
}

/// What a JSON value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Null,
    Bool,
    Integer,
    Number,
    Text,
    List,
    Object,
}

impl Kind {
    const ALL: [Self; 7] = [Self::Null, Self::Bool, Self::Integer, Self::Number, Self::Text, Self::List, Self::Object];

    pub(super) fn of(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(_) => Self::Bool,
            Value::Number(number) if number.is_f64() => Self::Number,
            Value::Number(_) => Self::Integer,
            Value::String(_) => Self::Text,
            Value::Array(_) => Self::List,
            Value::Object(_) => Self::Object,
        }
    }

    /// As people say it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool => "true or false",
            Self::Integer => "a whole number",
            Self::Number => "a number",
            Self::Text => "text",
            Self::List => "a list",
            Self::Object => "an object",
        }
    }

    fn read(name: &str) -> Option<Self> {
        Some(match name {
            "null" => Self::Null,
            "boolean" => Self::Bool,
            "integer" => Self::Integer,
            "number" => Self::Number,
            "string" => Self::Text,
            "array" => Self::List,
            "object" => Self::Object,
            _ => return None,
        })
    }
}

/// Some kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kinds(u8);

impl Kinds {
    pub(super) const NONE: Self = Self(0);
    pub(super) const ALL: Self = Self(0x7f);

    fn with(self, kind: Kind) -> Self {
        Self(self.0 | 1 << kind as u8)
    }

    pub(super) fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub(super) fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) fn has(self, kind: Kind) -> bool {
        self.0 & (1 << kind as u8) != 0
    }

    /// Whether a value of `kind` is one of these; a whole number is a number too.
    pub(super) fn accept(self, kind: Kind) -> bool {
        self.has(kind) || (kind == Kind::Integer && self.has(Kind::Number))
    }

    /// All but null, as people say them.
    pub(super) fn describe(self) -> String {
        let names: Vec<&str> =
            Kind::ALL.into_iter().filter(|kind| *kind != Kind::Null && self.has(*kind)).map(Kind::name).collect();
        if names.is_empty() { "null".into() } else { names.join(" or ") }
    }
}

/// A schema.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) kinds: Kinds,
    pub(super) choices: Option<Vec<Value>>,
    pub(super) pattern: Option<Pattern>,
    pub(super) length: Bounds<u64>,
    pub(super) range: Bounds<Number>,
    pub(super) item: Option<usize>,
    pub(super) items: Bounds<u64>,
    pub(super) unique: bool,
    pub(super) object: Option<Object>,
    pub(super) alternatives: Vec<usize>,
}

/// A least and a most.
#[derive(Debug, Clone)]
pub(super) struct Bounds<T> {
    pub(super) least: Option<T>,
    pub(super) most: Option<T>,
}

impl<T> Default for Bounds<T> {
    fn default() -> Self {
        Self { least: None, most: None }
    }
}

/// What a schema says of objects.
#[derive(Debug)]
pub(super) struct Object {
    /// By name, sorted.
    pub(super) fields: Vec<(Box<str>, usize)>,
    /// Other spellings, each with its field's name.
    pub(super) aliases: Vec<(Box<str>, Box<str>)>,
    pub(super) required: Vec<Box<str>>,
    /// Names that the reference has and this version refuses.
    pub(super) not_built: Vec<Box<str>>,
    /// Keys of these forms are other fields.
    pub(super) patterns: Vec<(Pattern, usize)>,
    /// What every other key holds; nothing, when there may be none.
    pub(super) rest: Option<usize>,
}

impl Object {
    pub(super) fn find_field(&self, name: &str) -> Option<usize> {
        self.fields.binary_search_by(|(field, _)| (**field).cmp(name)).ok().map(|place| self.fields[place].1)
    }

    pub(super) fn find_alias(&self, name: &str) -> Option<&str> {
        self.aliases.iter().find(|(alias, _)| **alias == *name).map(|(_, field)| &**field)
    }
}

/// All nodes of a schema; the first is the root.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) nodes: Vec<Node>,
}

impl Tree {
    pub(super) fn compile(schema: &Value) -> Result<Self, BadSchema> {
        let mut compiler = Compiler { root: schema, nodes: Vec::new(), named: HashMap::new() };
        compiler.node(schema, "#")?;
        let nodes = compiler.nodes.into_iter().map(|node| node.expect("every node is filled when its call returns"));
        Ok(Self { nodes: nodes.collect() })
    }

    /// What kinds a node takes, alternatives included.
    pub(super) fn kinds(&self, node: usize) -> Kinds {
        self.kinds_within(node, 0)
    }

    fn kinds_within(&self, node: usize, depth: usize) -> Kinds {
        let this = &self.nodes[node];
        // Alternatives of alternatives are never deep; a schema that refers to itself in a circle ends here.
        if this.alternatives.is_empty() || depth > 8 {
            return this.kinds;
        }
        let any = this.alternatives.iter().fold(Kinds::NONE, |sum, way| sum.or(self.kinds_within(*way, depth + 1)));
        this.kinds.and(any)
    }

    /// The field `key` of the root, under this name or another spelling.
    pub(super) fn find_field(&self, key: &str) -> Option<usize> {
        let object = self.nodes.first()?.object.as_ref()?;
        object.find_field(key).or_else(|| object.find_field(object.find_alias(key)?))
    }

    /// What a list's items are.
    pub(super) fn find_item(&self, node: usize) -> Option<usize> {
        let this = &self.nodes[node];
        this.item.or_else(|| this.alternatives.iter().find_map(|way| self.nodes[*way].item))
    }
}

/// Keywords that say nothing about validity.
const ANNOTATIONS: &[&str] = &[
    "$schema",
    "$id",
    "$defs",
    "$comment",
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
    "format",
];

struct Compiler<'a> {
    root: &'a Value,
    nodes: Vec<Option<Node>>,
    named: HashMap<String, usize>,
}

impl Compiler<'_> {
    fn node(&mut self, schema: &Value, place: &str) -> Result<usize, BadSchema> {
        if let Some(reference) = only_reference(schema) {
            if let Some(known) = self.named.get(reference) {
                return Ok(*known);
            }
            let target = self.resolve(reference, place)?;
            let index = self.reserve();
            self.named.insert(reference.into(), index);
            return self.fill(index, &target, reference);
        }
        let index = self.reserve();
        self.fill(index, schema, place)
    }

    fn reserve(&mut self) -> usize {
        self.nodes.push(None);
        self.nodes.len() - 1
    }

    fn resolve(&self, reference: &str, place: &str) -> Result<Value, BadSchema> {
        reference
            .strip_prefix('#')
            .and_then(|pointer| self.root.pointer(pointer))
            .cloned()
            .ok_or_else(|| bad_value("$ref", place))
    }

    fn fill(&mut self, index: usize, schema: &Value, place: &str) -> Result<usize, BadSchema> {
        let node = match schema {
            Value::Bool(true) => blank(Kinds::ALL),
            Value::Bool(false) => blank(Kinds::NONE),
            Value::Object(map) => self.read(map, place)?,
            _ => return Err(bad_value("schema", place)),
        };
        self.nodes[index] = Some(node);
        Ok(index)
    }

    fn read(&mut self, map: &Map<String, Value>, place: &str) -> Result<Node, BadSchema> {
        if let Some(reference) = map.get("$ref").and_then(Value::as_str) {
            // A reference beside other rules: both count, so they become one schema.
            let target = self.resolve(reference, place)?;
            let mut merged = target.as_object().cloned().ok_or_else(|| bad_value("$ref", place))?;
            for (key, value) in map.iter().filter(|(key, _)| *key != "$ref") {
                merge(&mut merged, key, value);
            }
            return self.read(&merged, place);
        }
        let mut node = blank(kinds_of(map, place)?);
        if node.kinds == Kinds::ALL && (map.contains_key("properties") || map.contains_key("additionalProperties")) {
            node.kinds = Kinds::NONE.with(Kind::Object);
        }
        for (keyword, value) in map {
            let bad = || bad_value(keyword, place);
            let natural = || value.as_u64().ok_or_else(bad);
            let number = || value.as_number().cloned().ok_or_else(bad);
            match keyword.as_str() {
                "type" | "properties" | "required" | "additionalProperties" | "patternProperties" => {}
                "enum" => node.choices = Some(value.as_array().cloned().ok_or_else(bad)?),
                "const" => node.choices = Some(vec![value.clone()]),
                "pattern" => node.pattern = Some(value.as_str().and_then(Pattern::parse).ok_or_else(bad)?),
                "minLength" => node.length.least = Some(natural()?),
                "maxLength" => node.length.most = Some(natural()?),
                "minItems" => node.items.least = Some(natural()?),
                "maxItems" => node.items.most = Some(natural()?),
                "uniqueItems" => node.unique = value.as_bool().ok_or_else(bad)?,
                "minimum" => node.range.least = Some(number()?),
                "maximum" => node.range.most = Some(number()?),
                "items" => node.item = Some(self.node(value, &format!("{place}/items"))?),
                "anyOf" | "oneOf" => {
                    for (way, schema) in value.as_array().ok_or_else(bad)?.iter().enumerate() {
                        let way = self.node(schema, &format!("{place}/{keyword}/{way}"))?;
                        node.alternatives.push(way);
                    }
                }
                other if ANNOTATIONS.contains(&other) || other.starts_with("x-") => {}
                _ => return Err(BadSchema::Keyword { keyword: keyword.clone(), place: place.into() }),
            }
        }
        node.range = narrowed_by_format(node.range, map.get("format"));
        if node.kinds.has(Kind::Object) {
            node.object = self.object(map, place)?;
        }
        Ok(node)
    }

    /// What is said of objects; nothing, when any object will do.
    fn object(&mut self, map: &Map<String, Value>, place: &str) -> Result<Option<Object>, BadSchema> {
        let keywords = ["properties", "required", "additionalProperties", "patternProperties", "x-not-built"];
        if !keywords.iter().any(|keyword| map.contains_key(*keyword)) {
            return Ok(None);
        }
        let mut fields = Vec::new();
        let mut aliases = Vec::new();
        for (name, schema) in map.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let node = self.node(schema, &format!("{place}/properties/{name}"))?;
            fields.push((name.as_str().into(), node));
            aliases.extend(texts(schema.get("x-aliases")).map(|alias| (alias.into(), name.as_str().into())));
        }
        fields.sort();
        let mut patterns = Vec::new();
        for (source, schema) in map.get("patternProperties").and_then(Value::as_object).into_iter().flatten() {
            let pattern = Pattern::parse(source).ok_or_else(|| bad_value("patternProperties", place))?;
            patterns.push((pattern, self.node(schema, &format!("{place}/patternProperties"))?));
        }
        // Plain JSON Schema lets a struct have any other key. Serde would drop it in silence, so here it may not.
        let closed = map.contains_key("properties") || map.contains_key("patternProperties");
        let rest = match map.get("additionalProperties") {
            None if closed => None,
            Some(Value::Bool(false)) => None,
            None => Some(self.node(&Value::Bool(true), place)?),
            Some(schema) => Some(self.node(schema, &format!("{place}/additionalProperties"))?),
        };
        Ok(Some(Object {
            fields,
            aliases,
            required: texts(map.get("required")).map(Into::into).collect(),
            not_built: texts(map.get("x-not-built")).map(Into::into).collect(),
            patterns,
            rest,
        }))
    }
}

fn blank(kinds: Kinds) -> Node {
    Node {
        kinds,
        choices: None,
        pattern: None,
        length: Bounds::default(),
        range: Bounds::default(),
        item: None,
        items: Bounds::default(),
        unique: false,
        object: None,
        alternatives: Vec::new(),
    }
}

/// The target of a schema that is a reference and says nothing else that counts.
fn only_reference(schema: &Value) -> Option<&str> {
    let map = schema.as_object()?;
    let counts = |key: &String| key != "$ref" && !ANNOTATIONS.contains(&key.as_str()) && !key.starts_with("x-");
    if map.keys().any(counts) { None } else { map.get("$ref")?.as_str() }
}

/// Adds a rule to a schema; properties and required names are joined.
fn merge(schema: &mut Map<String, Value>, key: &str, value: &Value) {
    match (schema.get_mut(key), value) {
        (Some(Value::Object(there)), Value::Object(more)) if key == "properties" => there.extend(more.clone()),
        (Some(Value::Array(there)), Value::Array(more)) if key == "required" => there.extend(more.iter().cloned()),
        _ => drop(schema.insert(key.into(), value.clone())),
    }
}

fn kinds_of(map: &Map<String, Value>, place: &str) -> Result<Kinds, BadSchema> {
    let read = |name: &Value| name.as_str().and_then(Kind::read).ok_or_else(|| bad_value("type", place));
    match map.get("type") {
        None => Ok(Kinds::ALL),
        Some(Value::Array(names)) => names.iter().try_fold(Kinds::NONE, |kinds, name| Ok(kinds.with(read(name)?))),
        Some(name) => Ok(Kinds::NONE.with(read(name)?)),
    }
}

/// Rust's integer types are `format` to schemars; their bounds are rules, because serde has them.
fn narrowed_by_format(range: Bounds<Number>, format: Option<&Value>) -> Bounds<Number> {
    let (least, most) = match format.and_then(Value::as_str) {
        Some("uint8") => (0, u64::from(u8::MAX)),
        Some("uint16") => (0, u64::from(u16::MAX)),
        Some("uint32") => (0, u64::from(u32::MAX)),
        Some("uint64" | "uint") => (0, u64::MAX),
        Some("int8") => (i64::from(i8::MIN), 0x7f),
        Some("int16") => (i64::from(i16::MIN), 0x7fff),
        Some("int32") => (i64::from(i32::MIN), 0x7fff_ffff),
        Some("int64" | "int") => (i64::MIN, 0x7fff_ffff_ffff_ffff),
        _ => return range,
    };
    Bounds { least: range.least.or_else(|| Some(least.into())), most: range.most.or_else(|| Some(most.into())) }
}

fn texts(list: Option<&Value>) -> impl Iterator<Item = &str> {
    list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

fn bad_value(keyword: &str, place: &str) -> BadSchema {
    BadSchema::Value { keyword: keyword.into(), place: place.into() }
}
