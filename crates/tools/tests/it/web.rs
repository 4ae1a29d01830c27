//! `HTTP` and `WebFetch`, against a server of the test's own.

use std::sync::{Arc, Mutex};

use drawloom_contract::tool::{Repeat, ToolError};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use crate::support::Room;

/// Answers each path with the text that stands for it, and notes what was asked.
pub(crate) async fn serve(room: &Room, pages: Vec<(&'static str, String)>) -> Arc<Mutex<Vec<String>>> {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    *room.network.server.lock().expect("the lock") = Some(listener.local_addr().expect("its address"));
    let asked = Arc::new(Mutex::new(Vec::new()));
    let notes = asked.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = Vec::new();
            let mut buffer = vec![0; 64 * 1024];
            while !complete(&request) {
                match stream.read(&mut buffer).await {
                    Ok(0) | Err(_) => break,
                    Ok(count) => request.extend_from_slice(&buffer[..count]),
                }
            }
            let request = String::from_utf8_lossy(&request).into_owned();
            let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
            notes.lock().expect("the lock").push(request);
            let page = pages.iter().find(|(known, _)| *known == path).map(|(_, page)| page.clone());
            let page = page.unwrap_or_else(|| "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n".into());
            let _ = stream.write_all(page.as_bytes()).await;
        }
    });
    asked
}

fn complete(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request).to_ascii_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
    body.len() >= length.unwrap_or(0)
}

pub(crate) fn page(kind: &str, body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

pub(crate) fn redirect(status: u16, to: &str) -> String {
    format!("HTTP/1.1 {status} Moved\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n")
}

#[tokio::test]
async fn http_sends_what_it_is_given_and_shows_what_comes_back() {
    let room = Room::new();
    let asked = serve(&room, vec![("/a?b=c", page("application/json", "{\"d\":1}"))]).await;
    let input =
        json!({ "method": "POST", "url": "http://api.example/a?b=c", "headers": { "X-One": "1" }, "body": "hi" });
    assert_eq!(
        room.done("HTTP", input).await,
        "HTTP 200 from http://api.example/a?b=c\ncontent-type: application/json\ncontent-length: 7\n\n{\"d\":1}"
    );
    let request = asked.lock().expect("the lock")[0].clone();
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(
        request,
        format!(
            "POST /a?b=c HTTP/1.1\r\nhost: api.example\r\nx-one: 1\r\nuser-agent: drawloom/{version}\r\ncontent-length: 2\r\n\r\nhi"
        )
    );
    assert!(room.done("HTTP", json!({ "url": "http://api.example/none" })).await.starts_with("HTTP 404"));
    for bad in [
        json!({ "url": "http://a.example/", "method": "CONNECT" }),
        json!({ "url": "nonsense" }),
        json!({ "url": "http://a.example/", "headers": { "Host": "b" } }),
        json!({ "url": "http://a.example/", "body": "x".repeat(256 * 1024 + 1) }),
    ] {
        assert!(matches!(room.call("HTTP", bad.clone()).await, Err(ToolError::Invalid(_))), "{bad}");
    }
    assert!(matches!(room.tool("HTTP").repeat(), Repeat::Never));
    assert!(matches!(room.tool("WebFetch").repeat(), Repeat::Safe));
}

#[tokio::test]
async fn long_and_binary_answers_are_cut_and_named() {
    let room = Room::new();
    let binary = "HTTP/1.1 200 OK\r\ncontent-type: image/png\r\ncontent-length: 4\r\n\r\n\0\0\0\0".to_owned();
    let zipped = "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-type: text/html\r\ncontent-length: 2\r\n\r\nxx"
        .to_owned();
    let pages = vec![("/long", page("text/plain", &"x".repeat(300_000))), ("/png", binary), ("/gzip", zipped)];
    serve(&room, pages).await;
    let long = room.done("HTTP", json!({ "url": "http://a.example/long" })).await;
    assert!(long.ends_with("xxx\n[truncated: the first 262144 bytes of 300000 of the body]"));
    let png = room.done("HTTP", json!({ "url": "http://a.example/png" })).await;
    assert!(png.ends_with("[4 bytes of image/png, not text]"), "{png}");
    let gzip = room.done("HTTP", json!({ "url": "http://a.example/gzip" })).await;
    assert!(gzip.ends_with("encoded as gzip, not shown]"), "{gzip}");
    assert!(room.fails("WebFetch", json!({ "url": "http://a.example/png" })).await.contains("is image/png, not text"));
    assert!(room.fails("WebFetch", json!({ "url": "http://a.example/gzip" })).await.contains("gzip"));
    assert!(room.fails("WebFetch", json!({ "url": "http://a.example/none" })).await.contains("status 404"));
}

#[tokio::test]
async fn web_fetch_reads_a_page_piece_by_piece() {
    let room = Room::new();
    let words: Vec<String> = (0..60_000).map(|number| format!("wörd{number}")).collect();
    let html = format!("<title>Long</title><p>{}</p>", words.join(" "));
    serve(
        &room,
        vec![("/page", page("text/html; charset=utf-8", &html)), ("/plain", page("text/plain", "<b> as it is"))],
    )
    .await;
    let (mut offset, mut text, mut pieces) = (0, String::new(), 0);
    loop {
        let said = room.done("WebFetch", json!({ "url": "http://a.example/page", "offset": offset })).await;
        let body = said.strip_prefix("http://a.example/page\nTitle: Long\n\n").expect("a heading");
        pieces += 1;
        match body.rsplit_once("\n[truncated: ") {
            Some((piece, notice)) => {
                text.push_str(piece);
                offset = notice
                    .rsplit_once("offset=")
                    .expect("an offset")
                    .1
                    .trim_end_matches(']')
                    .parse()
                    .expect("a number");
            }
            None => break text.push_str(body),
        }
    }
    assert!(pieces > 1 && text == words.join(" "), "{pieces} pieces");
    assert!(room.done("WebFetch", json!({ "url": "http://a.example/plain" })).await.ends_with("\n\n<b> as it is"));
}

#[tokio::test]
async fn redirects_are_followed_without_credentials_to_others_and_not_for_ever() {
    let room = Room::new();
    let asked = serve(
        &room,
        vec![
            ("/same", redirect(302, "/end")),
            ("/other", redirect(307, "http://other.example/end")),
            ("/see", redirect(303, "/end")),
            ("/loop", redirect(301, "/loop")),
            ("/end", page("text/plain", "end")),
        ],
    )
    .await;
    let request = |path: &str| {
        let headers = json!({ "Authorization": "Bearer t", "X-Api-Key": "k", "Accept": "text/plain" });
        json!({ "method": "POST", "url": format!("http://a.example{path}"), "headers": headers, "body": "b" })
    };
    let same = room.done("HTTP", request("/same")).await;
    assert!(
        same.starts_with("[redirected (302) to http://a.example/end]\nHTTP 200 from http://a.example/end"),
        "{same}"
    );
    let other = room.done("HTTP", request("/other")).await;
    assert!(
        other.starts_with(
            "[redirected (307) to http://other.example/end, without the headers Authorization, X-Api-Key]"
        ),
        "{other}"
    );
    room.done("HTTP", request("/see")).await;
    let asked: Vec<String> = asked.lock().expect("the lock").clone();
    let (method, authorised) = (
        |at: usize| asked[at].split(' ').next().expect("a method").to_owned(),
        |at: usize| asked[at].contains("Bearer t"),
    );
    assert_eq!(
        (method(1), authorised(1)),
        ("GET".into(), true),
        "302 after POST becomes GET; the same host keeps credentials"
    );
    assert_eq!((method(3), authorised(3)), ("POST".into(), false), "307 stays POST; another host gets none");
    assert!(
        !asked[3].contains("x-api-key") && asked[3].contains("accept: text/plain") && asked[3].ends_with("\r\n\r\nb")
    );
    assert_eq!((method(5), asked[5].contains("content-length")), ("GET".into(), false));
    let error = room.fails("HTTP", json!({ "url": "http://a.example/loop" })).await;
    assert!(error.contains("more than 5 redirects"), "{error}");
}

#[tokio::test]
async fn both_gates_must_name_the_host_and_the_error_says_which_does_not() {
    let mut room = Room::new();
    room.config.http.hosts = vec!["*.example".into()];
    room.hosts = vec!["a.example".into()];
    for (url, says) in [
        ("http://a.com/", "add it under tools.http.hosts"),
        ("http://b.example/", "add it to `hosts` of the agent"),
        ("http://a.example:8080/", "tools.http.ports"),
    ] {
        for tool in ["HTTP", "WebFetch"] {
            let error = room.call(tool, json!({ "url": url })).await.expect_err(url);
            assert!(matches!(&error, ToolError::Denied(text) if text.contains(says)), "{url}: {error}");
        }
    }
    room.hosts.clear();
    assert!(room.fails("HTTP", json!({ "url": "http://a.example/" })).await.contains("(none)"));
    assert_eq!(room.network.dialled.lock().expect("the lock").len(), 0);
}

#[tokio::test]
async fn a_change_whose_answer_is_missing_may_have_been_done_and_that_is_said() {
    let room = Room::new();
    let broken = "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf";
    let pages = vec![("/none", String::new()), ("/half", broken.into()), ("/off", redirect(307, "ftp://a.example/"))];
    serve(&room, pages).await;
    for path in ["/none", "/half", "/off"] {
        for (method, doubtful) in [("GET", false), ("HEAD", false), ("POST", true), ("DELETE", true)] {
            let input = json!({ "method": method, "url": format!("http://api.example{path}") });
            // Without a body there is nothing to miss in the answer to HEAD.
            let Err(error) = room.call("HTTP", input).await else {
                assert_eq!((method, path), ("HEAD", "/half"));
                continue;
            };
            assert_eq!(error.to_string().contains("may still have taken effect"), doubtful, "{method} {path}: {error}");
        }
    }
    *room.network.server.lock().expect("the lock") = None;
    let error = room.fails("HTTP", json!({ "method": "POST", "url": "http://api.example/" })).await;
    assert!(!error.contains("may still have taken effect"), "nothing was sent: {error}");
}
