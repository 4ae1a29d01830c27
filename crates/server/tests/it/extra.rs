//! Operations that are not built in: every method, the rest of a path, and routes that belong to two of them.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, atomic::Ordering},
};

use drawloom_contract::{
    caller::Scope,
    failure::{Failure, FailureKind},
};
use drawloom_net::Method;
use drawloom_server::{Answer, AnyOperation, Call, Card, Operation, Operations, OperationsError};
use drawloom_wire::request::{Changes, Request, Route};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::setup::{Server, Setup};

type Values = Arc<Mutex<BTreeMap<String, String>>>;

/// A value, or none.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Found {
    key: String,
    value: Option<String>,
}

/// An operation on a value whose key is the rest of the path.
macro_rules! operation {
    ($request:ident, $name:literal, $route:expr, $changes:ident, { $($field:ident: $type:ty),* }, $do:expr) => {
        #[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        struct $request {
            $($field: $type,)*
            #[serde(default, skip_serializing_if = "Option::is_none")]
            idempotency_key: Option<String>,
        }

        impl Request for $request {
            const NAME: &'static str = $name;
            const ROUTES: &'static [Route] = &[$route];
            const CHANGES: Changes = Changes::$changes;
            type Output = Found;
        }

        impl Operation for Of<$request> {
            type Input = $request;

            fn card(&self) -> Card {
                Card::of::<Self::Input>("Look at a value, or change it.", Scope::RunsCreate).toolset("values")
            }

            async fn call(&self, _: &Call<'_>, input: Self::Input) -> Result<Answer<Found>, Failure> {
                let mut values = self.0.lock().expect("no panic");
                let act: fn(&mut BTreeMap<String, String>, $request) -> (String, Option<String>) = $do;
                let (key, value) = act(&mut values, input);
                Ok(Answer::Value(Found { key, value }))
            }
        }
    };
}

struct Of<R>(Values, std::marker::PhantomData<fn() -> R>);

operation!(GetValue, "get_value", Route::get("/v1/values/{key...}"), Nothing, { key: String }, |values, input| {
    let value = values.get(&input.key).cloned();
    (input.key, value)
});
operation!(
    PutValue, "put_value", Route::put("/v1/values/{name...}"), Once, { name: String, value: String },
    |values, input| {
        values.insert(input.name.clone(), input.value.clone());
        (input.name, Some(input.value))
    }
);
operation!(
    AppendValue, "append_value", Route::patch("/v1/values/{key...}"), EveryTime, { key: String, value: String },
    |values, input| {
        let value = values.entry(input.key.clone()).or_default();
        value.push_str(&input.value);
        (input.key, Some(value.clone()))
    }
);
operation!(RemoveValue, "remove_value", Route::delete("/v1/values/{key...}"), Once, { key: String }, |values, input| {
    let value = values.remove(&input.key);
    (input.key, value)
});
operation!(OtherRuns, "other_runs", Route::get("/v1/runs/{id}"), Nothing, { id: String }, |_, input| (input.id, None));
operation!(MoreHealth, "more_health", Route::post("/healthz"), EveryTime, {}, |_, _| (String::new(), None));
operation!(SameName, "whoami", Route::get("/v1/_other"), Nothing, {}, |_, _| (String::new(), None));
operation!(UuidValue, "uuid_value", Route::get("/v1/_uuid"), Nothing, {}, |_, _| panic!("could not get random bytes"));
operation!(OnePart, "one_part", Route::get("/v1/values/{key}/length"), Nothing, { key: String }, |_, input| {
    (input.key, None)
});

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Forget {}

impl Request for Forget {
    const NAME: &'static str = "keyless";
    const ROUTES: &'static [Route] = &[Route::post("/v1/forget")];
    const CHANGES: Changes = Changes::Once;
    type Output = Found;
}

/// Changes something, and takes no key.
struct Keyless;

impl Operation for Keyless {
    type Input = Forget;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("Forget something.", Scope::RunsCreate).toolset("values")
    }

    async fn call(&self, _: &Call<'_>, _: Self::Input) -> Result<Answer<Found>, Failure> {
        Ok(Answer::Value(Found { key: String::new(), value: None }))
    }
}

fn of<R>(values: &Values) -> Arc<dyn AnyOperation>
where
    Of<R>: Operation,
{
    Arc::new(Of::<R>(values.clone(), std::marker::PhantomData))
}

async fn server() -> Server {
    let values = Values::default();
    let operations =
        vec![of::<GetValue>(&values), of::<PutValue>(&values), of::<AppendValue>(&values), of::<RemoveValue>(&values)];
    Setup { operations, ..Setup::default() }.start().await
}

async fn send(server: &Server, method: Method, path: &str, body: Option<Value>) -> (u16, Value) {
    let body = body.map(|body| body.to_string().into_bytes());
    let answer = server.send(method, path, &[], body.as_deref()).await;
    (answer.status, answer.body)
}

#[tokio::test]
async fn a_path_has_an_operation_for_each_method_and_its_rest_is_one_field() {
    let server = server().await;
    let found = |key: &str, value: Value| (200, json!({ "key": key, "value": value }));
    let put = send(&server, Method::Put, "/v1/values/a/b%2Fc/%2525", Some(json!({ "value": "x" }))).await;
    assert_eq!(put, found("a/b/c/%25", json!("x")), "it is decoded once");
    let path = "/v1/values/a/b/c/%2525";
    assert_eq!(
        send(&server, Method::Patch, path, Some(json!({ "value": "y" }))).await,
        found("a/b/c/%25", json!("xy"))
    );
    assert_eq!(send(&server, Method::Get, path, None).await, found("a/b/c/%25", json!("xy")));
    assert_eq!(send(&server, Method::Delete, path, None).await, found("a/b/c/%25", json!("xy")));
    assert_eq!(send(&server, Method::Get, path, None).await, found("a/b/c/%25", Value::Null));
    let answer = server.send(Method::Post, path, &[], Some(b"{}")).await;
    assert_eq!((answer.status, answer.header("allow")), (405, Some("GET, PUT, PATCH, DELETE, HEAD, OPTIONS")));
    let answer = server.send(Method::Delete, path, &[], Some(b"{}")).await;
    assert_eq!((answer.status, answer.code()), (400, "unexpected_body"));
    assert_eq!(answer.body["error"]["message"], "a DELETE request must not have a body");
    let answer = server.get("/v1/values/%ff").await;
    assert_eq!((answer.status, answer.code()), (400, "bad_path"));
}

#[tokio::test]
async fn the_typed_client_calls_them_too() {
    let server = server().await;
    let client = server.client(None);
    for key in ["plain", "a/b c/ü", "a/../b", "100%/x"] {
        let put = PutValue { name: key.into(), value: "v".into(), idempotency_key: None };
        let found = Found { key: key.into(), value: Some("v".into()) };
        assert_eq!(client.call(&put).await.expect("it is put"), found);
        assert_eq!(
            client.call(&GetValue { key: key.into(), idempotency_key: None }).await.expect("it is there"),
            found
        );
        assert_eq!(client.call(&RemoveValue { key: key.into(), idempotency_key: None }).await.expect("it goes"), found);
    }
}

#[tokio::test]
async fn a_repeat_with_the_same_key_changes_nothing_more() {
    let server = server().await;
    let append = |value: &str, key: Option<&str>| {
        let body = json!({ "value": value, "idempotency_key": key });
        send(&server, Method::Patch, "/v1/values/x", Some(body))
    };
    // Both at once: the second waits for the first.
    let (one, other) = tokio::join!(append("a", Some("k")), append("a", Some("k")));
    assert_eq!((one.1["value"].as_str(), &one), (Some("a"), &other));
    assert_eq!(append("a", None).await.1["value"], "aa");
    assert_eq!(append("a", Some("k")).await, one, "the first answer");
    let (status, refused) = append("b", Some("k")).await;
    assert_eq!((status, refused["error"]["code"].as_str()), (409, Some("idempotency_key_reused")));
    assert_eq!(append("b", Some("l")).await.1["value"], "aab");
}

#[tokio::test]
async fn a_repeat_whose_answer_was_too_large_to_store_changes_nothing_and_says_so() {
    let server = server().await;
    let append = |value: &str, key: Option<&str>| {
        let body = json!({ "value": value, "idempotency_key": key });
        send(&server, Method::Patch, "/v1/values/x", Some(body))
    };
    let large = "x".repeat(300 * 1024);
    assert_eq!(append(&large, Some("k")).await.1["value"], large.as_str());
    for _ in 0..2 {
        let (status, again) = append(&large, Some("k")).await;
        assert_eq!((status, again["error"]["code"].as_str()), (409, Some("answer_not_stored")));
    }
    assert_eq!(append("", None).await.1["value"], large.as_str(), "it was not appended again");
}

#[tokio::test]
async fn openapi_says_where_it_came_from_and_lists_them() {
    let server = server().await;
    let document = server.get("/v1/openapi.json").await.body;
    assert_eq!(document["servers"], json!([{ "url": server.url("") }]));
    let methods = document["paths"]["/v1/values/{key}"].as_object().expect("it is there");
    assert_eq!(methods.keys().collect::<Vec<_>>(), ["delete", "get", "patch"]);
    assert_eq!(document["paths"]["/v1/values/{name}"]["put"]["operationId"], "put_value");
}

#[test]
fn operations_that_cannot_be_told_apart_are_refused_by_name() {
    let values = Values::default();
    let refused = |operations: Vec<Arc<dyn AnyOperation>>| {
        Operations::with(operations).err().map(|error| error.to_string()).expect("they clash")
    };
    assert_eq!(
        refused(vec![of::<OtherRuns>(&values)]),
        "the operations get_run and other_runs have the same route: GET /v1/runs/{id}"
    );
    assert_eq!(
        refused(vec![of::<GetValue>(&values), of::<OnePart>(&values)]),
        "the operations get_value and one_part have the same route: GET /v1/values/{key}/length"
    );
    assert_eq!(
        refused(vec![of::<MoreHealth>(&values)]),
        "the operations /healthz and more_health have the same route: POST /healthz"
    );
    assert_eq!(
        refused(vec![Arc::new(Keyless)]),
        "the operation keyless changes state, but its request has no field idempotency_key"
    );
    let error = Operations::with([of::<SameName>(&values)]).err();
    assert_eq!(error, Some(OperationsError::SameName { name: "whoami" }));
}

#[tokio::test]
async fn a_server_with_two_operations_on_one_route_does_not_start() {
    let operations = vec![of::<OtherRuns>(&Values::default())];
    let error = Setup { operations, ..Setup::default() }.refused().await;
    assert_eq!((error.kind, error.code), (FailureKind::Invalid, "duplicate_route"));
    assert!(error.message.contains("get_run") && error.message.contains("other_runs"), "{error}");
}

#[tokio::test]
async fn without_entropy_what_panics_for_it_and_a_host_that_greets_are_told_so() {
    let setup = Setup { operations: vec![of::<UuidValue>(&Values::default())], ..Setup::default() };
    let entropy = setup.entropy.clone();
    let server = setup.start().await;
    let greeting = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "host", "version": "1" },
    } });
    let greeting = greeting.to_string();
    let ask = async || {
        let accept = [("accept", "application/json, text/event-stream")];
        let host = server.send(Method::Post, "/mcp", &accept, Some(greeting.as_bytes())).await;
        let panicked = server.get("/v1/_uuid").await;
        (host, (panicked.status, panicked.code().to_owned()))
    };
    entropy.ran_out.store(true, Ordering::SeqCst);
    let (host, panicked) = ask().await;
    assert_eq!((host.status, host.code()), (503, "no_entropy"), "{:?}", host.body);
    assert_eq!(panicked, (503, "no_entropy".into()));
    entropy.ran_out.store(false, Ordering::SeqCst);
    let (host, panicked) = ask().await;
    assert_eq!(host.status, 200, "{:?}", host.body);
    assert_eq!(panicked, (500, "bug".into()));
}
