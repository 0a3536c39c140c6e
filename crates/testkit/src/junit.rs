//! The parts of nextest's JUnit report that our programs read.

/// One test of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// The test binary, such as `haft-policy::it`.
    pub binary: String,
    /// The test's name in its binary.
    pub name: String,
    /// How long it took.
    pub seconds: f64,
    /// Whether it passed.
    pub passed: bool,
    /// What it printed, if the report has it.
    pub output: String,
}

/// The tests of a report.
pub fn cases(report: &str) -> Vec<Case> {
    report
        .split("<testcase ")
        .skip(1)
        .filter_map(|entry| {
            let (attributes, rest) = entry.split_once('>').unwrap_or((entry, ""));
            let seconds = attribute(attributes, "time").and_then(|time| time.parse().ok());
            Some(Case {
                binary: attribute(attributes, "classname")?,
                name: attribute(attributes, "name")?,
                seconds: seconds.unwrap_or_default(),
                passed: !rest.contains("<failure") && !rest.contains("<error"),
                output: printed(rest),
            })
        })
        .collect()
}

/// What a test printed on its standard output.
fn printed(entry: &str) -> String {
    let after = entry
        .split_once("<system-out>")
        .map_or("", |(_, after)| after);
    let output = after
        .split_once("</system-out>")
        .map_or("", |(output, _)| output);
    let escapes = [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&apos;", "'"),
    ];
    escapes
        .iter()
        .fold(output.to_owned(), |text, (escape, character)| {
            text.replace(escape, character)
        })
        .replace("&amp;", "&")
}

fn attribute(attributes: &str, name: &str) -> Option<String> {
    let at = format!(" {name}=\"");
    let padded = format!(" {attributes}");
    let value = padded.split_once(&at)?.1.split_once('"')?.0;
    Some(value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passed_and_what_failed_are_told_apart() {
        let report = r#"<testsuite name="a::it" tests="2">
            <testcase name="m::one" classname="a::it" timestamp="x" time="1.5">
            <system-out>a &lt; b &amp; c</system-out></testcase>
            <testcase name="m::two" classname="a::it" time="0.012"><failure type="test failure"/></testcase>"#;
        let case = |name: &str, seconds, passed, output: &str| Case {
            binary: "a::it".to_owned(),
            name: name.to_owned(),
            seconds,
            passed,
            output: output.to_owned(),
        };
        assert_eq!(
            cases(report),
            [
                case("m::one", 1.5, true, "a < b & c"),
                case("m::two", 0.012, false, "")
            ]
        );
    }
}
