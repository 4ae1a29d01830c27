//! A web page cannot start anything on an open server: every way in which a browser sends a request for a page, with the
//! headers that it sends.

use serde_json::json;
use tokio::io::AsyncReadExt;

use crate::setup::{Server, Setup, within};

/// What a browser adds to a request, besides what the page chose.
struct Browser {
    name: &'static str,
    /// Whether it sends `Sec-Fetch-*`; Safari does since 16.4.
    fetch_metadata: bool,
    user_agent: &'static str,
}

const BROWSERS: [Browser; 4] = [
    Browser { name: "Chrome", fetch_metadata: true, user_agent: "Mozilla/5.0 (X11; Linux x86_64) Chrome/140.0.0.0" },
    Browser { name: "Firefox", fetch_metadata: true, user_agent: "Mozilla/5.0 (X11; rv:143.0) Firefox/143.0" },
    Browser {
        name: "Safari",
        fetch_metadata: true,
        user_agent: "Mozilla/5.0 (Macintosh) Version/18.0 Safari/605.1.15",
    },
    Browser {
        name: "old Safari",
        fetch_metadata: false,
        user_agent: "Mozilla/5.0 (Macintosh) Version/15.0 Safari/605",
    },
];

/// Where the page is: its origin as the browser writes it, and what it is to the server.
struct Page {
    origin: &'static str,
    site: &'static str,
    /// The host that the page asks for; the server's own, when empty.
    host: &'static str,
}

const PAGES: [Page; 12] = [
    Page { origin: "https://evil.example", site: "cross-site", host: "" },
    Page { origin: "http://evil.example", site: "cross-site", host: "localhost" },
    // file://, data:, a sandboxed frame, a redirect over another site, and Referrer-Policy: no-referrer.
    Page { origin: "null", site: "cross-site", host: "" },
    Page { origin: "http://localhost:3000", site: "same-site", host: "localhost" },
    Page { origin: "http://127.0.0.1:3000", site: "same-site", host: "" },
    Page { origin: "http://localhost.evil.example", site: "cross-site", host: "" },
    Page { origin: "chrome-extension://abcdefghijklmnop", site: "cross-site", host: "" },
    // A name of the page that was pointed at this machine: to the browser it is the same origin.
    Page { origin: "http://evil.example:PORT", site: "same-origin", host: "evil.example" },
    Page { origin: "http://127.0.0.1.evil.example:PORT", site: "same-origin", host: "127.0.0.1.evil.example" },
    Page { origin: "http://localhost.evil.example:PORT", site: "same-origin", host: "localhost.evil.example" },
    // Addresses that lead here and are not loopback.
    Page { origin: "https://evil.example", site: "cross-site", host: "0.0.0.0" },
    Page { origin: "http://0.0.0.0:PORT", site: "same-origin", host: "0.0.0.0" },
];

/// How a page makes its browser send a request.
struct Form {
    name: &'static str,
    method: &'static str,
    /// `Sec-Fetch-Mode` and `Sec-Fetch-Dest`.
    mode: &'static str,
    dest: &'static str,
    /// Whether the browser adds `Origin`; to a GET without CORS it does not.
    origin: bool,
    kind: &'static str,
    extra: &'static str,
}

const fn form(
    name: &'static str,
    method: &'static str,
    mode: &'static str,
    dest: &'static str,
    kind: &'static str,
) -> Form {
    Form { name, method, mode, dest, origin: true, kind, extra: "" }
}

const FORMS: [Form; 17] = [
    form("fetch, no-cors, text", "POST", "no-cors", "empty", "text/plain;charset=UTF-8"),
    form("fetch, no-cors, form", "POST", "no-cors", "empty", "application/x-www-form-urlencoded;charset=UTF-8"),
    form("fetch, cors, JSON as if the preflight had been granted", "POST", "cors", "empty", "application/json"),
    form("fetch, no-cors, Blob without a type", "POST", "no-cors", "empty", ""),
    form("XMLHttpRequest, text", "POST", "cors", "empty", "text/plain"),
    form("<form>", "POST", "navigate", "document", "application/x-www-form-urlencoded"),
    form("<form enctype=multipart/form-data>", "POST", "navigate", "document", "multipart/form-data; boundary=x"),
    form("<form enctype=text/plain>", "POST", "navigate", "document", "text/plain"),
    form("<form target=iframe>", "POST", "navigate", "iframe", "text/plain"),
    form("navigator.sendBeacon", "POST", "no-cors", "empty", "text/plain;charset=UTF-8"),
    form("<a ping>", "POST", "no-cors", "empty", "text/ping"),
    Form {
        extra: "Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: content-type\r\n",
        ..form("preflight", "OPTIONS", "cors", "empty", "")
    },
    Form {
        extra: "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
        ..form("WebSocket", "GET", "websocket", "empty", "")
    },
    Form { extra: "Accept: text/event-stream\r\n", ..form("EventSource", "GET", "cors", "empty", "") },
    Form { origin: false, ..form("<img>", "GET", "no-cors", "image", "") },
    Form { origin: false, ..form("<script>", "GET", "no-cors", "script", "") },
    Form { origin: false, ..form("<iframe>", "GET", "navigate", "iframe", "") },
];

/// Paths that start or stop something, each with a body that would do it.
fn targets(server: &Server) -> Vec<(String, String)> {
    let run = server.fake.run_ids()[0];
    let spawn = json!({"agent": "quick", "prompt": "go"});
    let call =
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "spawn_run", "arguments": spawn}});
    vec![
        ("/v1/runs".into(), spawn.to_string()),
        ("/v1/runs:batch".into(), json!({"spawns": [spawn]}).to_string()),
        (format!("/v1/runs/{run}/cancel"), "{}".into()),
        ("/mcp".into(), call.to_string()),
    ]
}

async fn send(server: &Server, request: &str) -> String {
    let mut socket = server.say(request.as_bytes()).await;
    let mut text = Vec::new();
    within(socket.read_to_end(&mut text)).await.expect("an answer");
    String::from_utf8_lossy(&text).into_owned()
}

async fn server_with_a_run() -> Server {
    let server = Setup::default().start().await;
    let spawn = json!({"agent": "slow", "prompt": "go", "mode": "detach"});
    assert_eq!(server.post("/v1/runs", spawn).await.status, 202);
    server
}

#[tokio::test]
async fn a_web_page_starts_and_stops_nothing_on_an_open_server() {
    let server = server_with_a_run().await;
    let port = server.address.port().to_string();
    let mut tried = 0;
    for browser in &BROWSERS {
        for page in &PAGES {
            for form in &FORMS {
                for (path, body) in targets(&server) {
                    let body = if form.method == "POST" { body.as_str() } else { "" };
                    let host = if page.host.is_empty() { "127.0.0.1" } else { page.host };
                    let mut request = format!("{} {path} HTTP/1.1\r\nHost: {host}:{port}\r\n", form.method);
                    request += &format!("User-Agent: {}\r\n", browser.user_agent);
                    if form.origin {
                        request += &format!("Origin: {}\r\n", page.origin.replace("PORT", &port));
                    }
                    if browser.fetch_metadata {
                        request += &format!("Sec-Fetch-Site: {}\r\nSec-Fetch-Mode: {}\r\n", page.site, form.mode);
                        request += &format!("Sec-Fetch-Dest: {}\r\n", form.dest);
                    }
                    if !form.kind.is_empty() {
                        request += &format!("Content-Type: {}\r\n", form.kind);
                    }
                    if !form.extra.contains("Connection:") {
                        request += "Connection: close\r\n";
                    }
                    request += &format!("{}Content-Length: {}\r\n\r\n{body}", form.extra, body.len());
                    let what = format!("{} in {} from {} to {path}", form.name, browser.name, page.origin);
                    // The answer to a WebSocket's handshake keeps its connection; no other form says so.
                    let request = request.replace("Connection: Upgrade", "Connection: close, Upgrade");
                    let answer = send(&server, &request).await;
                    // A GET without `Origin` and without metadata says nothing of a page, and changes nothing.
                    let says_nothing = !form.origin && !browser.fetch_metadata;
                    let refused = answer.starts_with("HTTP/1.1 403") || answer.starts_with("HTTP/1.1 415");
                    assert!(refused || says_nothing, "{what}: {answer}");
                    assert!(!answer.to_ascii_lowercase().contains("\r\naccess-control-"), "{what}: {answer}");
                    assert!(!answer.starts_with("HTTP/1.1 101"), "{what}: {answer}");
                    tried += 1;
                }
            }
        }
    }
    assert_eq!(server.fake.run_ids().len(), 1, "something was started");
    assert!(!server.fake.status(server.fake.run_ids()[0]).is_terminal(), "something was stopped");
    println(&format!("requests of web pages tried: {tried}"));
}

#[tokio::test]
async fn programs_send_what_they_like() {
    let server = server_with_a_run().await;
    let port = server.address.port();
    let body = r#"{"agent":"quick","prompt":"go","mode":"detach"}"#;
    for headers in [
        // curl -d
        "User-Agent: curl/8.0\r\nContent-Type: application/x-www-form-urlencoded\r\n",
        "Content-Type: application/json\r\n",
        "",
        // fetch of Node, which says how it asks and not for whom
        "Sec-Fetch-Mode: cors\r\nContent-Type: text/plain;charset=UTF-8\r\nUser-Agent: node\r\n",
        // A page of this server, and an address that a person typed
        "Origin: http://127.0.0.1:PORT\r\nSec-Fetch-Site: same-origin\r\nContent-Type: application/json\r\n",
        "Sec-Fetch-Site: none\r\nContent-Type: application/json; charset=utf-8\r\n",
    ] {
        let headers = headers.replace("PORT", &port.to_string());
        let request = format!(
            "POST /v1/runs HTTP/1.1\r\nHost: localhost:{port}\r\nConnection: close\r\n{headers}Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let answer = send(&server, &request).await;
        assert!(answer.starts_with("HTTP/1.1 202"), "{headers}: {answer}");
    }
    assert_eq!(server.fake.run_ids().len(), 7);
}

#[expect(clippy::print_stdout, reason = "the count belongs to the result")]
fn println(text: &str) {
    println!("{text}");
}
