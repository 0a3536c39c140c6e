//! The headings of a page, each with the character at which it stands.

use std::fmt::Write as _;

use haft_contract::ops::DocumentHeading;

/// The most headings that an outline lists.
const MAX_OUTLINE: usize = 200;

/// Room for the line that says how many headings are not listed, in characters.
const LAST_LINE: usize = 80;

/// The headings, one a line, in so many characters at most.
pub(super) fn outline(headings: &[DocumentHeading], max_chars: usize) -> String {
    if headings.is_empty() {
        return "(no headings)\n".to_owned();
    }
    let each: Vec<String> = headings.iter().take(MAX_OUTLINE).map(line).collect();
    let length = |line: &String| line.chars().count();
    let is_whole =
        headings.len() <= MAX_OUTLINE && each.iter().map(length).sum::<usize>() <= max_chars;
    let room = if is_whole {
        max_chars
    } else {
        max_chars.saturating_sub(LAST_LINE)
    };
    let (mut lines, mut characters, mut listed) = (String::new(), 0, 0);
    for line in &each {
        characters += length(line);
        if characters > room {
            break;
        }
        lines.push_str(line);
        listed += 1;
    }
    let left = headings.len() - listed;
    if left > 0 {
        let why = if listed == MAX_OUTLINE {
            ""
        } else {
            "; a larger `max_chars` lists more"
        };
        let noun = if left == 1 { "heading" } else { "headings" };
        let _ = writeln!(lines, "({left} more {noun}{why})");
    }
    // So few characters that not even that has room.
    lines.chars().take(max_chars).collect()
}

fn line(heading: &DocumentHeading) -> String {
    let indent = "  ".repeat(usize::from(heading.level.saturating_sub(1)));
    format!("{indent}- {} (offset {})\n", heading.text, heading.offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headings(count: u64) -> Vec<DocumentHeading> {
        let heading = |number| DocumentHeading {
            level: 2,
            text: format!("Hälfte {number}"),
            offset: number * 100,
        };
        (0..count).map(heading).collect()
    }

    #[test]
    fn no_more_characters_than_were_asked_for() {
        for most in [1, 79, 80, 100, 200, 1000, 50_000] {
            let outline = outline(&headings(500), most);
            assert!(outline.chars().count() <= most, "{most}: {outline}");
        }
    }

    #[test]
    fn what_is_not_listed_is_counted() {
        assert_eq!(
            outline(&headings(2), 60),
            "  - Hälfte 0 (offset 0)\n  - Hälfte 1 (offset 100)\n"
        );
        let cut = outline(&headings(9), 130);
        assert_eq!(
            cut,
            "  - Hälfte 0 (offset 0)\n  - Hälfte 1 (offset 100)\n\
             (7 more headings; a larger `max_chars` lists more)\n"
        );
        let long = outline(&headings(300), 50_000);
        assert!(long.ends_with("\n(100 more headings)\n"), "{long}");
        assert_eq!(outline(&[], 100), "(no headings)\n");
    }
}
