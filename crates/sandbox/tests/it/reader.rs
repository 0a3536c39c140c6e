//! Reading documents of strangers: what the process that does it has given up, and that whatever
//! becomes of it is an error of one call.

use std::{
    fs,
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use haft_contract::{
    ErrorKind,
    ops::{DocumentForm, DocumentKind, DocumentOps as _, UntrustedDocument},
};
use haft_sandbox::{
    helper::Helper,
    reader::{ConfinedReader, MEMORY_BYTES},
};
use haft_testkit::{PATIENCE, helper_program};

fn reader() -> ConfinedReader {
    ConfinedReader::new(Helper::Path(helper_program()), Path::new("/nonexistent"))
}

fn document(bytes: &[u8], kind: DocumentKind) -> UntrustedDocument<'_> {
    UntrustedDocument {
        bytes,
        kind,
        charset: None,
        url: "https://example.com/",
        form: DocumentForm::Markdown,
        within: PATIENCE,
    }
}

#[tokio::test]
async fn a_document_becomes_text() {
    let page = "<html lang=en><title>T</title><h1>Ä</h1><p>one <b>two</b></p>".as_bytes();
    let text = reader()
        .read(document(page, DocumentKind::Html))
        .await
        .unwrap();
    assert_eq!(text.text, "# Ä\n\none **two**\n");
    assert_eq!(
        (text.title.as_deref(), text.language.as_deref()),
        (Some("T"), Some("en"))
    );
    assert_eq!(
        (text.headings[0].text.as_str(), text.headings[0].offset),
        ("Ä", 0)
    );
    let nothing = reader()
        .read(document(b"", DocumentKind::Plain))
        .await
        .unwrap();
    assert_eq!(nothing.text, "");
}

#[test]
fn a_reader_has_given_up_everything_before_it_sees_the_document() {
    let mut child = Command::new(helper_program())
        .args(["__haft-helper", "read-document"])
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let status = format!("/proc/{}/status", child.id());
    let began = Instant::now();
    // It waits for the document; by then it must be confined.
    let confined = loop {
        let status = fs::read_to_string(&status).unwrap();
        let is_set = |line: &str| status.lines().any(|known| known == line);
        if is_set("Seccomp:\t2") && is_set("NoNewPrivs:\t1") {
            break true;
        }
        if began.elapsed() > PATIENCE {
            break false;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let limits = fs::read_to_string(format!("/proc/{}/limits", child.id())).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(confined);
    let limit = |name: &str| {
        let line = limits.lines().find(|line| line.starts_with(name)).unwrap();
        let line = line.trim_start_matches(name);
        line.split_whitespace().next().unwrap().to_owned()
    };
    assert_eq!(limit("Max address space"), MEMORY_BYTES.to_string());
    assert_eq!(limit("Max cpu time"), "2");
    assert_eq!(
        (limit("Max file size"), limit("Max core file size")),
        ("0".to_owned(), "0".to_owned())
    );
}

#[tokio::test]
async fn what_needs_too_much_is_an_error_of_its_own_call() {
    // Twice as long once it is decoded.
    let long = vec![0xe9; 62 * 1024 * 1024];
    let too_much = UntrustedDocument {
        charset: Some("windows-1252"),
        ..document(&long, DocumentKind::Plain)
    };
    let error = reader().read(too_much).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    let longer = vec![b'x'; 80 * 1024 * 1024];
    let error = reader()
        .read(document(&longer, DocumentKind::Plain))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("too large"), "{error}");
    let no_time = UntrustedDocument {
        within: Duration::ZERO,
        ..document(b"x", DocumentKind::Plain)
    };
    assert_eq!(
        reader().read(no_time).await.unwrap_err().kind(),
        ErrorKind::TimedOut
    );
    assert!(
        reader()
            .read(document(b"fine", DocumentKind::Plain))
            .await
            .is_ok()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_at_a_time_are_each_read_once() {
    let reader = std::sync::Arc::new(reader());
    let reading = (0..24).map(|number| {
        let reader = std::sync::Arc::clone(&reader);
        tokio::spawn(async move {
            let page = format!("<p>page {number}");
            reader
                .read(document(page.as_bytes(), DocumentKind::Html))
                .await
        })
    });
    for (number, one) in reading.collect::<Vec<_>>().into_iter().enumerate() {
        assert_eq!(one.await.unwrap().unwrap().text, format!("page {number}\n"));
    }
}

#[tokio::test]
async fn a_helper_that_is_none_is_said() {
    let temp = tempfile::tempdir().unwrap();
    let inside = temp.path().join("haft-helper");
    fs::write(&inside, "#!/bin/sh\n").unwrap();
    let reader = ConfinedReader::new(Helper::Path(inside), temp.path());
    let error = reader
        .read(document(b"x", DocumentKind::Plain))
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("lies in the workspace"),
        "{error}"
    );
    let mut program = tempfile::NamedTempFile::new().unwrap();
    program.write_all(b"#!/bin/sh\necho hello\n").unwrap();
    let path = program.into_temp_path();
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let other = ConfinedReader::new(Helper::Path(path.to_path_buf()), temp.path());
    let error = other
        .read(document(b"x", DocumentKind::Plain))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
}
