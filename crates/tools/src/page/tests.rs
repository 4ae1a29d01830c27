use drawloom_net::guarded::Address;

use super::*;

fn read(html: &str) -> Page {
    read_at(html, "https://example.com/docs/page.html")
}

fn read_at(html: &str, address: &str) -> Page {
    readable(html, &Address::parse(address).expect("an address"), &AtomicBool::new(false))
}

#[test]
fn a_page_becomes_what_people_would_write_down() {
    let page = read(
        "<!doctype html><html><head><title> The\n Title </title><style>p{}</style><meta charset=utf-8></head><body>\
         <nav><a href='/'>Home</a> <a href='#top'>Top</a></nav><h1>Head &amp; shoulders</h1>\
         <p>First <b>bold</b>\n   text with a <a href=\"../other?x=1&amp;y=2\">link <i>inside</i></a>.<br>New line\
         <script>alert('<p>no</p>')</script><p>Second&nbsp;paragraph &lt;tag&gt; &eacute; &#x1F600;\
         <ul><li>one<li>two<ol><li>deep</ol></ul><pre>fn main() {\n    code();\n}</pre>\
         <table><tr><th>a<th>b</tr><tr><td>1<td>2</table><img src=x alt='A picture'><svg><title>no</title><text>no</text></svg>\
         <noscript>no</noscript><template>no</template><!-- no --><p><code>x = 1</code> end <a href='mailto:a@b.c'>mail</a> \
         <a href='javascript:no()'>run</a>",
    );
    assert_eq!(page.title.as_deref(), Some("The Title"));
    let expected = "[Home](https://example.com/) Top\n\n# Head & shoulders\n\nFirst bold text with a \
                    [link inside](https://example.com/other?x=1&y=2).\nNew line\n\nSecond paragraph <tag> é 😀\n\n- one\n- two\n  \
                    1. deep\n\n```\nfn main() {\n    code();\n}\n```\n\na | b\n1 | 2\n\n[image: A picture]\n\n`x = 1` end \
                    [mail](mailto:a@b.c) run";
    assert_eq!(page.text, expected);
}

#[test]
fn broken_and_hostile_pages_do_no_harm() {
    assert_eq!(read("").text, "");
    assert_eq!(read("<p>open <b>never <a href=/x>closed").text, "open never [closed](https://example.com/x)");
    assert_eq!(read("</p></ul></pre></a></script>plain").text, "plain");
    assert_eq!(read("<head><title>t</title><body>shown").text, "shown");
    assert_eq!(read("<a href='http://127.0.0.1/'>a</a><a href='http://[bad'>b</a>").text, "[a](http://127.0.0.1/)b");
    // A tree of this depth would overflow a stack; there is no tree.
    let deep = "<div><ul><li><a href=x>".repeat(100_000) + "bottom";
    assert!(read(&deep).text.ends_with("(https://example.com/docs/x)"));
    let tags = "<".repeat(100_000) + &"<a href='".repeat(10_000);
    let _ = read(&tags);
}

#[test]
fn scripts_pictures_and_an_open_head_hide_nothing_but_themselves() {
    assert_eq!(read("<script>if (a<b && c) { x = '<svg>' }</script>shown").text, "shown");
    assert_eq!(read("<style>a<b{}</style><p>shown<title>no</title> too").text, "shown too");
    assert_eq!(read("<svg/>one<math />two<svg><title/><style/><svg/><path d='x'/></svg>three").text, "onetwothree");
    assert_eq!(read("<head><meta charset=utf-8><link rel=x><p>shown</p>").text, "shown");
    let page = read("<head><noscript><img alt=no></noscript><title>T</title>text in the head");
    assert_eq!((page.title.as_deref(), page.text.as_str()), (Some("T"), "text in the head"));
}

#[test]
fn no_page_becomes_far_longer_than_it_is() {
    let address = format!("https://example.com/{}/", "d".repeat(8000));
    let page = read_at(&"<a href=x>a</a> ".repeat(20_000), &address);
    assert!(!page.cut && page.text.len() < 40_000 && page.text.starts_with("a a a"), "{}", page.text.len());
    let address = format!("https://example.com/{}/", "d".repeat(400));
    let page = read_at(&"<a href=x>a</a> ".repeat(20_000), &address);
    assert!(page.cut && page.text.len() <= MOST_TEXT, "{}", page.text.len());
    let stopped = readable("<p>text", &Address::parse("https://a.b/").expect("an address"), &AtomicBool::new(true));
    assert_eq!(stopped.text, "");
}

#[test]
fn character_sets_are_followed_and_what_is_not_text_is_said() {
    assert_eq!(decode("grün".as_bytes(), "text/html").as_deref(), Some("grün"));
    assert_eq!(decode(b"gr\xfcn", "text/plain").as_deref(), Some("grün"));
    assert_eq!(decode(b"\xcf\xf0\xe8", "text/plain; charset=windows-1251").as_deref(), Some("При"));
    assert_eq!(
        decode(b"<meta charset=\"windows-1251\">\xcf", "text/html").as_deref(),
        Some("<meta charset=\"windows-1251\">П")
    );
    assert_eq!(decode(b"\xff\xfeh\0i\0", "text/plain").as_deref(), Some("hi"));
    assert_eq!(decode("é".as_bytes().split_last().expect("two bytes").1, "text/plain").as_deref(), Some("\u{fffd}"));
    assert_eq!(decode(b"\x89PNG\0\0", "image/png"), None);
    assert!(
        is_text("application/ld+json") && is_text("text/csv") && !is_text("image/png") && !is_text("application/pdf")
    );
}
