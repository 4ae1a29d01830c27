//! OpenAPI 3.1, made from the list of operations.

use drawloom_contract::VERSION;
use drawloom_wire::{error::ErrorBody, health::Health, request::Route};
use schemars::{SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use crate::{dispatch::Operations, operation::Card};

/// The whole document of a server at `address`.
///
/// Only the first route of an operation is in `paths`; the others are listed with it as `x-alias-routes`. So each operation
/// has one `operationId`, and generated clients have one method for it.
pub fn document(operations: &Operations, address: &str) -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    });
    let mut generator = SchemaGenerator::new(settings);
    let error = generator.subschema_for::<ErrorBody>().to_value();
    let mut paths = Map::new();
    for served in operations.iter() {
        let entry = served.entry();
        let input = (entry.input)(&mut generator).to_value();
        let schemas = ResponseSchemas {
            output: (entry.output)(&mut generator).to_value(),
            detached: entry.card.detached.map(|schema| schema(&mut generator).to_value()),
            error: error.clone(),
        };
        let Some((route, aliases)) = entry.card.routes().split_first() else { continue };
        // OpenAPI has no parameter for the rest of a path; its value has slashes all the same.
        let item = paths.entry(route.path.replace("...}", "}")).or_insert_with(|| json!({}));
        item[route.method.as_str().to_lowercase()] = operation_object(&entry.card, route, aliases, &input, &schemas);
    }
    for (path, item) in fixed(&mut generator, &error) {
        paths.insert(path.into(), item);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Drawloom",
            "version": VERSION,
            "license": { "name": "MIT or Apache 2.0", "identifier": "MIT OR Apache-2.0" },
            "description": "Runs and coordinates teams of AI agents. Fields marked x-aliases have other spellings; names in x-not-built are refused with code not_built.",
        },
        "servers": [{ "url": address }],
        "paths": paths,
        "components": {
            "schemas": generator.take_definitions(true),
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
        },
        "security": [{ "token": [] }, {}],
    })
}

struct ResponseSchemas {
    output: Value,
    detached: Option<Value>,
    error: Value,
}

fn operation_object(card: &Card, route: &Route, aliases: &[Route], input: &Value, schemas: &ResponseSchemas) -> Value {
    let in_path: Vec<&str> = route.parameters().collect();
    let properties = input["properties"].as_object().cloned().unwrap_or_default();
    let required: Vec<&str> = input["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let parameter = |name: &str, place: &str| {
        let schema = properties.get(name).cloned().unwrap_or(Value::Bool(true));
        let mut parameter =
            json!({ "name": name, "in": place, "required": place == "path" || required.contains(&name) });
        if let Some(description) = schema.get("description") {
            parameter["description"] = description.clone();
        }
        if place == "query" && schema["type"].to_string().contains("array") {
            parameter["explode"] = json!(false);
        }
        parameter["schema"] = schema;
        parameter
    };
    let mut all: Vec<Value> = in_path.iter().map(|name| parameter(name, "path")).collect();
    if !route.has_body() {
        all.extend(
            properties.keys().filter(|name| !in_path.contains(&name.as_str())).map(|name| parameter(name, "query")),
        );
    }
    for known in &card.headers {
        let description = format!("The same as the field `{}`.", known.field);
        all.push(
            json!({ "name": known.header, "in": "header", "description": description, "schema": { "type": "string" } }),
        );
    }
    let mut object = json!({
        "operationId": card.name(),
        "summary": card.summary,
        "tags": [card.toolset],
        "parameters": all,
        "responses": responses(card, schemas),
        "x-read-only": card.is_read_only(),
        "x-idempotent": card.is_idempotent(),
    });
    if let Some(scope) = card.scope {
        object["x-scope"] = json!(scope);
    }
    if !aliases.is_empty() {
        let route = |route: &Route| format!("{} {}", route.method.as_str(), route.path);
        object["x-alias-routes"] = aliases.iter().map(route).collect();
    }
    if route.has_body() {
        let schema = without(input, &in_path);
        let needed = schema.get("required").and_then(Value::as_array).is_some_and(|names| !names.is_empty());
        object["requestBody"] = json!({ "required": needed, "content": { "application/json": { "schema": schema } } });
    }
    object
}

/// The input without the fields that the path has.
fn without(input: &Value, in_path: &[&str]) -> Value {
    let mut schema = input.clone();
    if let Some(properties) = schema["properties"].as_object_mut() {
        properties.retain(|name, _| !in_path.contains(&name.as_str()));
    }
    if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|name| !name.as_str().is_some_and(|name| in_path.contains(&name)));
    }
    schema
}

fn responses(card: &Card, schemas: &ResponseSchemas) -> Value {
    let mut content = json!({ "application/json": { "schema": schemas.output } });
    if card.streams {
        content["text/event-stream"] = json!({ "schema": { "type": "string" } });
    }
    if card.download.is_some() {
        content["application/octet-stream"] = json!({ "schema": { "type": "string", "format": "binary" } });
    }
    let mut responses = json!({
        "200": { "description": "The result, or the current state if the wait timed out.", "content": content },
    });
    add_errors(&mut responses, &schemas.error);
    if let Some(detached) = &schemas.detached {
        responses["202"] = json!({ "description": "Accepted; mode was detach.", "content": { "application/json": { "schema": detached } } });
    }
    responses
}

/// What every route can answer beside what was asked for.
fn add_errors(responses: &mut Value, error: &Value) {
    let content = json!({ "application/json": { "schema": error } });
    responses["4XX"] = json!({ "description": "The request was rejected.", "content": content });
    responses["default"] = json!({ "description": "The server failed.", "content": content });
}

/// The routes beside the operations.
fn fixed(generator: &mut SchemaGenerator, error: &Value) -> [(&'static str, Value); 4] {
    let health = generator.subschema_for::<Health>().to_value();
    let get = |name: &str, summary: &str, kind: &str, schema: Value| {
        let mut responses = json!({ "200": { "description": "OK.", "content": { kind: { "schema": schema } } } });
        add_errors(&mut responses, error);
        json!({ "get": { "operationId": name, "summary": summary, "tags": ["server"], "responses": responses } })
    };
    [
        ("/healthz", get("healthz", "Say whether runs can be taken.", "application/json", health.clone())),
        (
            "/readyz",
            get(
                "readyz",
                "Say whether new runs should be sent here: 503 while it shuts down.",
                "application/json",
                health,
            ),
        ),
        ("/metrics", get("metrics", "All metrics, for Prometheus.", "text/plain", json!({ "type": "string" }))),
        ("/v1/openapi.json", get("openapi", "This document.", "application/json", json!({ "type": "object" }))),
    ]
}
