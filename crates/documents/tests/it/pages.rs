//! What pages become.

use haft_documents::{Document, Extractor, Form, Kind, ReadableText, read};

fn html(page: &str, form: Form) -> ReadableText {
    read(&Document {
        bytes: page.as_bytes(),
        kind: Kind::Html,
        charset: Some("utf-8"),
        url: "https://example.com/docs/page",
        form,
    })
}

#[track_caller]
fn check(page: &str, markdown: &str) {
    assert_eq!(html(page, Form::Markdown).text, markdown);
}

#[test]
fn text_in_a_line() {
    check(
        "<p>one <b> two </b>three<br>four <em>five</em>, <code>a`b</code> <a href='../x?y'>six</a>",
        "one **two** three\nfour *five*, ``a`b`` [six](https://example.com/x?y)\n",
    );
    check(
        "<p><a href='javascript:alert(1)'>a</a> <a href='#top'>b</a> <a href='data:,x'>c</a> \
         <img src=/i.png alt='a  chart'> <img src=/t.gif alt=''> x<sup>2</sup> <del>old</del>",
        "a b c ![a chart](https://example.com/i.png) x2 ~~old~~\n",
    );
}

#[test]
fn headings_lists_and_quotations() {
    check(
        "<h1>Title <a class=headerlink href='#t'>¶</a></h1><p>Text.<ul><li>one<li><p>two</p><p>more</p>\
         <ol start=3><li>three<li>four</ol></ul><blockquote><p>said</p><p>again</p></blockquote><hr><p>end",
        "# Title\n\nText.\n\n- one\n- two\n\n  more\n  3. three\n  4. four\n\n> said\n>\n> again\n\n---\n\nend\n",
    );
    check(
        "<dl><dt>term<dd>what it means<dt>other<dd><p>a</p><p>b</p></dl>",
        "**term**\n: what it means\n\n**other**\n: a\n\n  b\n",
    );
}

#[test]
fn code_keeps_its_lines_and_its_language() {
    check(
        "<p>See:</p><div class=highlight-rust><pre><span>fn</span> main() {\n    <i>x</i>();\n}\n</pre></div>",
        "See:\n\n```rust\nfn main() {\n    x();\n}\n```\n",
    );
    check(
        "<pre><code class='language-py hljs'>a = '```'</code></pre>",
        "````py\na = '```'\n````\n",
    );
    check(
        "<table class=highlighttable><tr><td class=linenos><pre>1\n2</pre></td><td class=code>\
         <div><pre>first\nsecond</pre></div></td></tr></table>",
        "```\nfirst\nsecond\n```\n",
    );
    check(
        "<pre><div class=line>a</div><div class=line>b</div></pre>",
        "```\na\nb\n```\n",
    );
}

#[test]
fn tables_of_data_and_tables_that_arrange() {
    check(
        "<table><thead><tr><th>Name<th>Size</thead><tr><td>a|b<td><b>1</b> KB<tr><td>c</table>",
        "| Name | Size |\n| --- | --- |\n| a\\|b | **1** KB |\n| c |  |\n",
    );
    check(
        "<table><tr><td><h2>Left</h2><p>text<td><table><tr><td>x<td>y<tr><td>1<td>2</table></table>",
        "## Left\n\ntext\n\n| x | y |\n| --- | --- |\n| 1 | 2 |\n",
    );
}

#[test]
fn what_is_on_every_page_is_left_out() {
    let prose =
        "This is a paragraph with enough words in it to be what the page is about. ".repeat(4);
    let page = format!(
        "<html lang=en-GB><head><title> The\n page </title></head><body>\
         <header><a href=/>Home</a> <a href=/a>About</a></header>\
         <nav><ul><li><a href=/1>One</a><li><a href=/2>Two</a></ul></nav>\
         <div class='cookie-banner'><p>We value your privacy and use cookies for many things here.</p></div>\
         <div class=content><h1>Heading</h1><p>{prose}</p><p>{prose}</p></div>\
         <aside><p>Subscribe to our letter, it comes every week with everything new.</p></aside>\
         <footer>Copyright</footer></body></html>"
    );
    let reading = html(&page, Form::Markdown);
    let prose = prose.trim();
    assert_eq!(reading.text, format!("# Heading\n\n{prose}\n\n{prose}\n"));
    assert_eq!(reading.extractor, Extractor::MainContent);
    assert_eq!(reading.title.as_deref(), Some("The page"));
    assert_eq!(reading.language.as_deref(), Some("en-GB"));
    assert!(
        reading.kept_ratio > 0.7 && reading.kept_ratio < 0.95,
        "{}",
        reading.kept_ratio
    );
    let text = html(&page, Form::Text).text;
    assert_eq!(text, format!("Heading\n\n{prose}\n\n{prose}\n"));
}

#[test]
fn what_the_page_calls_its_main_content_is_believed_if_it_is() {
    let prose =
        "Words that say something about the subject of this page, and more of them. ".repeat(5);
    let main = format!(
        "<div><p>Other text that is not part of it, though it is not short either.</p></div><main><h2>A</h2><p>{prose}</p></main>"
    );
    assert_eq!(
        html(&main, Form::Markdown).text,
        format!("## A\n\n{}\n", prose.trim())
    );
    // An empty main element, filled by scripts, with the text beside it.
    let empty = format!("<main></main><div><p>{prose}</p></div>");
    assert_eq!(
        html(&empty, Form::Markdown).text,
        format!("{}\n", prose.trim())
    );
}

#[test]
fn a_forum_keeps_all_its_posts() {
    let post = |number: usize| {
        format!(
            "<div class=post><div class=author><a href=/u>user{number}</a></div>\
             <div class=body><p>Answer number {number} to the question, with a reason and an example of it.</p></div></div>"
        )
    };
    let posts: String = (0..8).map(post).collect();
    let page = format!(
        "<body><div id=menu><a href=/>Forum</a></div><div id=thread><h1>How?</h1>{posts}</div></body>"
    );
    let text = html(&page, Form::Markdown).text;
    for number in 0..8 {
        assert!(
            text.contains(&format!("Answer number {number} to")),
            "{text}"
        );
    }
    assert!(
        text.starts_with("# How?") && !text.contains("Forum"),
        "{text}"
    );
}

#[test]
fn scripts_of_any_direction_and_density() {
    let chinese = "东京是日本的首都，也是世界上人口最多的城市之一。这里有许多历史悠久的寺庙和现代化的高楼大厦。".repeat(3);
    let page = format!(
        "<div class=nav><a href=/>首页</a></div><article><h1>东京</h1><p>{chinese}</p></article>"
    );
    assert_eq!(
        html(&page, Form::Markdown).text,
        format!("# 东京\n\n{chinese}\n")
    );
    let arabic =
        "القاهرة هي عاصمة جمهورية مصر العربية وأكبر مدنها، وتقع على ضفاف نهر النيل. ".repeat(4);
    let page = format!(
        "<html dir=rtl lang=ar><nav><a href=/>رئيسية</a></nav><div><h1>القاهرة</h1><p>{arabic}</p></div>"
    );
    let reading = html(&page, Form::Markdown);
    assert_eq!(reading.text, format!("# القاهرة\n\n{}\n", arabic.trim()));
    assert_eq!(reading.language.as_deref(), Some("ar"));
}

#[test]
fn a_page_that_scripts_build_says_so() {
    let shell = "<html><head><title>App</title><script src=/main.js></script></head>\
                 <body><noscript>You need to enable JavaScript.</noscript><div id=root></div></body></html>";
    let reading = html(shell, Form::Markdown);
    assert!(reading.is_shell);
    assert_eq!(
        (reading.text.as_str(), reading.title.as_deref()),
        ("", Some("App"))
    );
    assert!(!html("<p>A short page.", Form::Markdown).is_shell);
}

#[test]
fn what_nobody_sees_is_not_read() {
    let tags = "\u{e0049}\u{e0067}\u{e006e}\u{e006f}\u{e0072}\u{e0065}";
    let page = format!(
        "<p>Seen{tags}.</p><p hidden>1</p><p style='display: none'>2</p><p style='opacity:0'>3</p>\
         <p style=\"font-size:0px !important\">4</p><p aria-hidden=true>5</p><template>6</template><!-- 7 -->\
         <p>a\u{200b}b\u{202e}c\u{200d}d</p>"
    );
    let reading = html(&page, Form::Markdown);
    assert_eq!(reading.text, "Seen.\n\nabcd\n");
    assert_eq!(reading.hidden_characters, 9);
    check(
        "<p>a <code>b<i hidden>1</i></code><pre>c<i style='color:transparent'>2</i></pre>\
         <p style='position:absolute;left:-9999px'>3</p><p>d<span style='font-size:1px'>4</span></p>\
         <p style='color:#fff;background:#ffffff'>5</p>",
        "a `b`\n\n```\nc\n```\n\nd\n",
    );
}

#[test]
fn what_hides_is_gone_from_every_form_and_the_title() {
    let tags = "\u{e0049}\u{e0067}\u{202e}\u{fe01}\u{200d}";
    let page = format!(
        "<title>T{tags}ea</title><h1>O{tags}ne</h1><p>t{tags}wo <code>x{tags}y</code></p>\
         <pre>p{tags}q</pre><img src=/i.png alt='a{tags}b'>"
    );
    for (kind, form) in [
        (Kind::Html, Form::Markdown),
        (Kind::Html, Form::Text),
        (Kind::Html, Form::Raw),
        (Kind::Markdown, Form::Markdown),
        (Kind::Plain, Form::Text),
    ] {
        let reading = read(&Document {
            bytes: page.as_bytes(),
            kind,
            charset: Some("utf-8"),
            url: "https://example.com/",
            form,
        });
        assert!(reading.text.is_ascii(), "{form:?}: {}", reading.text);
        assert!(reading.hidden_characters >= 20, "{form:?}");
        assert!(reading.title.unwrap_or_default().is_ascii());
    }
}

#[test]
fn what_writing_needs_is_kept() {
    let text = "नमस्ते क्\u{200d}ष, می\u{200c}خواهم, שלום, 👩\u{200d}❤\u{fe0f}\u{200d}👨";
    for form in [Form::Markdown, Form::Text] {
        let reading = html(&format!("<p>{text}</p>"), form);
        assert_eq!(reading.text.trim_end(), text);
        assert_eq!(reading.hidden_characters, 0);
    }
}

#[test]
fn headings_have_their_places() {
    let page = "<h1>Äpfel</h1><p>über</p><h2>Two <code>x</code></h2><p>b</p>";
    let reading = html(page, Form::Markdown);
    for heading in &reading.headings {
        let rest: String = reading.text.chars().skip(heading.offset).collect();
        assert!(
            rest.starts_with('#') && rest.contains(&heading.text),
            "{heading:?}"
        );
    }
    let levels: Vec<u8> = reading
        .headings
        .iter()
        .map(|heading| heading.level)
        .collect();
    assert_eq!(levels, [1, 2]);
}

#[test]
fn what_is_no_page_is_its_own_text() {
    let document = |kind, form| {
        read(&Document {
            bytes: "# A\n\n<b>x</b>\n".as_bytes(),
            kind,
            charset: None,
            url: "https://example.com/",
            form,
        })
    };
    let markdown = document(Kind::Markdown, Form::Markdown);
    assert_eq!(markdown.text, "# A\n\n<b>x</b>\n");
    assert_eq!(
        (markdown.extractor, markdown.title.as_deref()),
        (Extractor::ServerMarkdown, Some("A"))
    );
    let raw = document(Kind::Html, Form::Raw);
    assert_eq!(
        (raw.extractor, raw.text.as_str()),
        (Extractor::Source, "# A\n\n<b>x</b>\n")
    );
    assert_eq!(document(Kind::Plain, Form::Text).text, "# A\n\n<b>x</b>\n");
}

#[test]
fn lines_that_are_only_to_be_clicked_are_left_out() {
    let prose = "<p>Rivers were measured with sticks before they were measured with light, and the sticks are still there.</p>";
    check(
        &format!(
            "<main><h1>Rivers</h1><div><a href=/reply>Reply</a> | <a href='#'>Three more</a></div>\
             <div class=votes>17</div>{prose}<table><tr><td>a<td>1<tr><td>b<td>2</table>\
             <p>See <a href=/print>print</a> too.<p><a href=/next-river>The next river</a></main>"
        ),
        "# Rivers\n\nRivers were measured with sticks before they were measured with light, and the sticks are still there.\n\n\
         | a | 1 |\n| --- | --- |\n| b | 2 |\n\nSee [print](https://example.com/print) too.\n\n\
         [The next river](https://example.com/next-river)\n",
    );
}

#[test]
fn what_readers_wrote_below_a_page_is_left_out_and_what_they_wrote_instead_is_not() {
    let comment = "<div class=comment><p>Mine has been running since the spring of 1988 without a new belt.</p></div>";
    let prose = "<p>A belt of leather lasts for ten years, if it is oiled twice in each of them and never left in the sun.</p>";
    let page = format!("<div><h1>Belts</h1>{prose}{prose}<div id=comments>{comment}</div></div>");
    assert!(!html(&page, Form::Markdown).text.contains("1988"));
    let thread =
        format!("<div><h1>Belts</h1><p>Ask.</p><div id=comments>{comment}{comment}</div></div>");
    assert!(html(&thread, Form::Markdown).text.contains("1988"));
    let answers = format!("<div><h1>Belts</h1>{prose}{comment}{prose}{comment}</div>");
    assert!(html(&answers, Form::Markdown).text.contains("1988"));
}

#[test]
fn a_heading_before_what_is_kept_comes_along_if_it_names_the_page() {
    let prose = "<p>The tide comes twice a day, and nobody who lives here has ever asked it to come once more.</p>";
    let page = |title: &str| {
        format!(
            "<title>{title}</title><div class=menu-bar><h1>Tides</h1><a href=/>x</a></div>\
             <div><a href=/a>one</a></div><main>{prose}{prose}{prose}</main>"
        )
    };
    assert!(
        html(&page("Tides - Shore"), Form::Markdown)
            .text
            .starts_with("# Tides\n\nThe")
    );
    assert!(
        html(&page("Shore"), Form::Markdown)
            .text
            .starts_with("The tide")
    );
}

#[test]
fn code_in_a_table_of_lines_and_names_of_line_numbers() {
    check(
        "<table><tr><td class=blob-num data-n=1><td>a = 1<tr><td class=blob-num><td>  b</table>",
        "```\na = 1\n  b\n```\n",
    );
    check(
        "<pre class=line-numbers><code><span class=line-number>1</span>let a;</code></pre>",
        "```\nlet a;\n```\n",
    );
}

#[test]
fn a_page_that_scripts_build_is_read_from_what_it_carries() {
    let text =
        "The ferry leaves at seven and comes back at nine, unless there is fog on the sound. "
            .repeat(4);
    let data = format!("{{\"a\":{{\"headline\":\"Ferry\",\"articleBody\":\"{text}\"}}}}");
    let page = format!(
        "<title>F</title><script type=application/ld+json>{data}</script><div id=app></div>"
    );
    let read = html(&page, Form::Markdown);
    assert_eq!(read.extractor, Extractor::EmbeddedText);
    assert_eq!(read.text, format!("# Ferry\n\n{}\n", text.trim()));
    assert!(!read.is_shell);
    let fallback =
        format!("<script src=/x.js></script><noscript><h1>Ferry</h1><p>{text}</noscript>");
    assert!(
        html(&fallback, Form::Markdown)
            .text
            .starts_with("# Ferry\n\nThe ferry")
    );
    // Beside text of its own, the data is not read.
    let own = format!(
        "{page}<p>{}",
        "The page says something else about boats here. ".repeat(8)
    );
    assert!(!html(&own, Form::Markdown).text.contains("ferry"));
    let nothing = "<script src=/x.js></script><noscript>Please enable JavaScript.</noscript>";
    assert!(html(nothing, Form::Markdown).is_shell);
}
