//! The guard with a resolver and a dialler that only record: nothing here leaves the machine.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use drawloom_contract::failure::{Explain, FailureKind};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

/// Answers look-ups from a list, one after the other, the last one for ever; notes every dial and serves an empty 200.
struct Recorder {
    answers: Vec<Vec<&'static str>>,
    asked: Mutex<Vec<String>>,
    dialled: Mutex<Vec<SocketAddr>>,
}

#[async_trait]
impl Resolve for Recorder {
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        let mut asked = self.asked.lock().expect("the lock");
        let answer = self.answers.get(asked.len()).or(self.answers.last()).cloned().unwrap_or_default();
        asked.push(host.to_owned());
        Ok(answer.iter().map(|ip| ip.parse().expect("an address")).collect())
    }
}

#[async_trait]
impl Dial for Recorder {
    async fn dial(&self, address: SocketAddr) -> io::Result<Box<dyn Stream>> {
        self.dialled.lock().expect("the lock").push(address);
        let (ours, mut theirs) = tokio::io::duplex(4096);
        tokio::spawn(async move {
            let mut request = vec![0; 4096];
            let _ = theirs.read(&mut request).await;
            let _ = theirs.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
        });
        Ok(Box::new(ours))
    }
}

fn recorder(answers: &[&[&'static str]]) -> Arc<Recorder> {
    let answers = answers.iter().map(|answer| answer.to_vec()).collect();
    Arc::new(Recorder { answers, asked: Mutex::default(), dialled: Mutex::default() })
}

fn guarded(recorder: &Arc<Recorder>, private_hosts: &[&str]) -> Guarded {
    let private_hosts = private_hosts.iter().map(|host| (*host).to_owned()).collect();
    Guarded::new(Rules { private_hosts, ports: vec![80, 443] }, recorder.clone(), recorder.clone())
}

async fn get(client: &Guarded, url: &str) -> Result<Response, Error> {
    let request = Request { method: Method::Get, address: Address::parse(url)?, headers: vec![], body: Bytes::new() };
    client.send(request).await
}

/// Addresses that must not be dialled, in every spelling.
const PRIVATE: &[&str] = &[
    "http://127.0.0.1/",
    "http://127.1/",
    "http://2130706433/",
    "http://0x7f000001/",
    "http://0x7f.0.0.1/",
    "http://017700000001/",
    "http://0177.0.0.1/",
    "http://127.0.0.1./",
    "http://127.255.255.254/",
    "http://0/",
    "http://0.0.0.0/",
    "http://0.1.2.3/",
    "http://10.0.0.1/",
    "http://10.255.255.255/",
    "http://172.16.0.1/",
    "http://172.31.255.255/",
    "http://192.168.0.1/",
    "http://192.168.255.255/",
    "http://169.254.169.254/latest/meta-data/",
    "http://0xa9fea9fe/",
    "http://100.64.0.1/",
    "http://100.127.255.255/",
    "http://192.0.0.1/",
    "http://192.0.2.1/",
    "http://192.88.99.1/",
    "http://198.18.0.1/",
    "http://198.19.255.255/",
    "http://198.51.100.1/",
    "http://203.0.113.1/",
    "http://224.0.0.1/",
    "http://239.255.255.255/",
    "http://240.0.0.1/",
    "http://255.255.255.255/",
    "http://[::]/",
    "http://[::1]/",
    "http://[0:0:0:0:0:0:0:1]/",
    "http://[::127.0.0.1]/",
    "http://[::8.8.8.8]/",
    "http://[::ffff:127.0.0.1]/",
    "http://[::ffff:7f00:1]/",
    "http://[::ffff:10.0.0.1]/",
    "http://[::ffff:169.254.169.254]/",
    "http://[::ffff:0:127.0.0.1]/",
    "http://[64:ff9b::127.0.0.1]/",
    "http://[64:ff9b::10.0.0.1]/",
    "http://[64:ff9b::a9fe:a9fe]/",
    "http://[64:ff9b:1::1]/",
    "http://[64:ff9b:1::8.8.8.8]/",
    "http://[2002:7f00:1::]/",
    "http://[2002:0808:0808::1]/",
    "http://[2001::1]/",
    "http://[2001:0:4136:e378:8000:63bf:3fff:fdd2]/",
    "http://[2001:db8::1]/",
    "http://[3fff::1]/",
    "http://[fc00::1]/",
    "http://[fd12:3456::1]/",
    "http://[fe80::1]/",
    "http://[febf::1]/",
    "http://[fec0::1]/",
    "http://[ff02::1]/",
    "http://[ff0e::1]/",
    "http://[100::1]/",
    "http://[5f00::1]/",
    "http://[4000::1]/",
    "http://１２７.０.０.１/",
    "http://①②⑦.0.0.1/",
    "http://%31%32%37.0.0.1/",
    "http://127。0。0。1/",
];

#[tokio::test]
async fn no_private_address_is_dialled_in_any_spelling() {
    let recorder = recorder(&[]);
    let client = guarded(&recorder, &[]);
    for url in PRIVATE {
        let error = get(&client, url).await.expect_err(url);
        assert!(matches!(error, Error::Private { .. }), "{url}: {error}");
        assert_eq!(error.kind(), FailureKind::Denied, "{url}");
    }
    assert_eq!(
        (recorder.dialled.lock().expect("the lock").len(), recorder.asked.lock().expect("the lock").len()),
        (0, 0)
    );
    use std::io::Write;
    writeln!(io::stderr(), "{} private addresses tried, 0 dialled", PRIVATE.len()).expect("standard error");
}

#[tokio::test]
async fn what_cannot_be_an_address_is_refused_before_anybody_is_asked() {
    let recorder = recorder(&[&["93.184.216.34"]]);
    let client = guarded(&recorder, &[]);
    for url in [
        "file:///etc/passwd",
        "ftp://example.com/",
        "gopher://127.0.0.1:6379/_x",
        "javascript:alert(1)",
        "data:text/plain,x",
        "unix:/run/x.sock",
        "example.com",
        "//example.com/",
        "http://",
        "http://user@example.com/",
        "http://user:password@example.com/",
        "http://example.com@127.0.0.1/",
        "http://a..b/",
        "http://example.com../",
        "http://[::1",
        "http://[fe80::1%25eth0]/",
        "http://exa mple.com/",
        "http://example.com:99999/",
        "http://256.1.1.1/",
        "http://1.2.3.4.5/",
        "http://0x100000000/",
    ] {
        let error = get(&client, url).await.expect_err(url);
        assert!(matches!(error, Error::BadAddress { .. }), "{url}: {error}");
    }
    for (url, port) in
        [("http://example.com:22/", 22), ("http://example.com:25/", 25), ("https://example.com:6379/", 6379)]
    {
        let error = get(&client, url).await.expect_err(url);
        assert!(matches!(error, Error::Port { port: refused, .. } if refused == port), "{url}: {error}");
    }
    let long = format!("http://example.com/{}", "a".repeat(9000));
    assert!(matches!(get(&client, &long).await, Err(Error::BadAddress { .. })));
    assert_eq!(recorder.dialled.lock().expect("the lock").len(), 0);
}

#[tokio::test]
async fn what_is_dialled_is_what_was_looked_at() {
    // A name that is public at the first look and private at the second: there is one look for each connection.
    let rebinding = recorder(&[&["93.184.216.34"], &["127.0.0.1"]]);
    let client = guarded(&rebinding, &[]);
    get(&client, "http://rebind.example/").await.expect("the first look is public");
    let error = get(&client, "http://rebind.example/").await.expect_err("the second is not");
    assert!(matches!(error, Error::Private { .. }), "{error}");
    assert!(!error.to_string().contains("127.0.0.1"), "the answer does not say where it leads");
    assert_eq!(*rebinding.dialled.lock().expect("the lock"), ["93.184.216.34:80".parse().expect("an address")]);
    assert_eq!(rebinding.asked.lock().expect("the lock").len(), 2);
    // Of a mixed answer only the public part is dialled.
    let mixed = recorder(&[&["10.0.0.1", "::1", "64:ff9b::a00:1", "2606:2800:220:1::1", "93.184.216.34"]]);
    get(&guarded(&mixed, &[]), "http://MIXED.example./").await.expect("a part is public");
    assert_eq!(*mixed.dialled.lock().expect("the lock"), ["[2606:2800:220:1::1]:80".parse().expect("an address")]);
    assert_eq!(*mixed.asked.lock().expect("the lock"), ["mixed.example"]);
    for answer in [&["0.0.0.0"][..], &["::ffff:10.1.1.1"], &["fd00::1", "192.168.1.1"], &["100.100.100.200"]] {
        let private = recorder(&[answer]);
        assert!(matches!(get(&guarded(&private, &[]), "http://localhost/").await, Err(Error::Private { .. })));
        assert_eq!(private.dialled.lock().expect("the lock").len(), 0);
    }
    assert!(matches!(get(&guarded(&recorder(&[]), &[]), "http://none.example/").await, Err(Error::NoAddress { .. })));
}

#[tokio::test]
async fn public_addresses_and_what_the_operator_excepts_get_through() {
    let recorder = recorder(&[&["10.0.0.5"]]);
    let client = guarded(&recorder, &["wiki.internal", "build.internal:8080", "10.1.2.3", "[::1]:9000"]);
    for url in [
        "http://8.8.8.8/",
        "http://[64:ff9b::8.8.8.8]/",
        "http://[::ffff:8.8.8.8]/",
        "http://wiki.internal/",
        "http://WIKI.internal.:9999/",
        "http://build.internal:8080/x",
        "http://10.1.2.3:81/",
        "http://[::1]:9000/",
    ] {
        let mut response = get(&client, url).await.expect(url);
        assert_eq!(response.status(), 200);
        assert_eq!(response.chunk().await.expect("a body").expect("a piece"), "ok");
    }
    for url in [
        "http://build.internal/",
        "http://build.internal:80/",
        "http://10.1.2.4/",
        "http://sub.wiki.internal/",
        "http://[::1]/",
    ] {
        assert!(matches!(get(&client, url).await, Err(Error::Private { .. } | Error::Port { .. })), "{url}");
    }
    assert_eq!(recorder.dialled.lock().expect("the lock").len(), 8);
}

#[tokio::test]
async fn headers_cannot_bend_the_connection() {
    let recorder = recorder(&[&["8.8.8.8"]]);
    let client = guarded(&recorder, &[]);
    for (name, value) in [
        ("Host", "127.0.0.1"),
        ("content-length", "0"),
        ("Transfer-Encoding", "chunked"),
        ("Connection", "upgrade"),
        ("Proxy-Authorization", "x"),
        ("a b", "x"),
        ("", "x"),
        ("x", "a\r\nHost: evil"),
        ("x", "a\nb"),
        ("x\r\ny", "z"),
    ] {
        let address = Address::parse("http://example.com/").expect("an address");
        let headers = vec![(name.to_owned(), value.to_owned())];
        let sent = client.send(Request { method: Method::Post, address, headers, body: Bytes::new() }).await;
        assert!(matches!(sent, Err(Error::BadHeader { .. })), "{name}: {value}");
    }
    assert_eq!(recorder.dialled.lock().expect("the lock").len(), 0);
}

#[tokio::test]
async fn over_real_sockets_a_request_goes_out_whole_and_a_plain_server_is_not_secure() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("its address").port();
    let server = tokio::spawn(async move {
        let mut heads = Vec::new();
        for _ in 0..2 {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let mut head = vec![0; 4096];
            let count = stream.read(&mut head).await.expect("a request");
            head.truncate(count);
            heads.push(String::from_utf8_lossy(&head).into_owned());
            let _ = stream
                .write_all(b"HTTP/1.1 302 Found\r\nlocation: http://10.0.0.1/\r\ncontent-length: 0\r\n\r\n")
                .await;
        }
        heads
    });
    let rules = Rules { private_hosts: vec![format!("127.0.0.1:{port}")], ports: vec![] };
    let client = Guarded::new(rules, Arc::new(SystemResolver), Arc::new(SystemDialer));
    let request = Request {
        method: Method::Put,
        address: Address::parse(&format!("http://127.0.0.1:{port}/a/../b?c=d#e")).expect("an address"),
        headers: vec![("X-One".into(), "1".into())],
        body: "body".into(),
    };
    let response = client.send(request).await.expect("an answer");
    assert_eq!((response.status(), response.header("location")), (302, Some("http://10.0.0.1/")));
    let insecure = get(&client, &format!("https://127.0.0.1:{port}/")).await.expect_err("it speaks no TLS");
    assert!(matches!(insecure, Error::Insecure { .. }), "{insecure}");
    let heads = server.await.expect("the server");
    let expected =
        format!("PUT /b?c=d HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nx-one: 1\r\ncontent-length: 4\r\n\r\nbody");
    assert_eq!(heads[0], expected);
}
