//! Elements that nobody sees who looks at the page: what says of itself that it is hidden, and what its
//! own style makes invisible, empty, tiny, or moves off the screen. Style sheets are not read.

use crate::{
    tag::Tag,
    tree::{Attribute, NodeContent, NodeId, Tree},
};

/// The largest size, in hundredths of a pixel, that nobody can read.
const TINY: i64 = 200;

/// How far off, in hundredths of a pixel, nobody sees it.
const FAR: i64 = 50_000;

/// How opaque something is, in hundredths, that nobody sees.
const FAINT: i64 = 5;

/// Whether an element, with all that is in it, is there for nobody who looks.
pub(crate) fn is_hidden(tree: &Tree, id: NodeId) -> bool {
    tree.attribute(id, Attribute::Hidden).is_some()
        || tree.attribute(id, Attribute::AriaHidden) == Some("true")
        || (tree.tag(id) == Some(Tag::Input)
            && tree.attribute(id, Attribute::Type) == Some("hidden"))
        || tree
            .attribute(id, Attribute::Style)
            .is_some_and(style_hides)
}

/// The text in an element without what is hidden in it.
pub(crate) fn seen_text(tree: &Tree, id: NodeId) -> String {
    let mut text = String::new();
    add_seen(tree, id, &mut text);
    text
}

fn add_seen(tree: &Tree, id: NodeId, to: &mut String) {
    match tree.node(id).map(|node| &node.content) {
        Some(NodeContent::Text(text)) => to.push_str(text),
        Some(NodeContent::Element(Tag::Br, _)) => to.push('\n'),
        Some(NodeContent::Element(tag, _)) if tag.is_silent() || is_hidden(tree, id) => {}
        Some(NodeContent::Element(_, _)) => {
            for child in tree.children(id) {
                add_seen(tree, child, to);
            }
        }
        None => {}
    }
}

fn style_hides(style: &str) -> bool {
    let style: String = style
        .chars()
        .filter(|c| !c.is_whitespace())
        .map(|c| c.to_ascii_lowercase())
        .collect();
    let rules = || {
        style.split(';').filter_map(|rule| {
            let (name, value) = rule.split_once(':')?;
            Some((name, value.trim_end_matches("!important")))
        })
    };
    let is_cut = rules().any(|(name, value)| name.starts_with("overflow") && value == "hidden");
    let of = |wanted: &[&str]| {
        let mut found = rules().filter(|(name, _)| wanted.contains(name));
        found.next_back().and_then(|(_, value)| color(value))
    };
    let ink = of(&["color"]);
    let is_unmarked = ink.is_some() && ink == of(&["background", "background-color"]);
    is_unmarked || rules().any(|(name, value)| rule_hides(name, value, is_cut))
}

/// Whether one rule hides what it is for; `is_cut` says that what does not fit is not shown.
fn rule_hides(name: &str, value: &str, is_cut: bool) -> bool {
    let size = || hundredths(value);
    match name {
        "display" => value == "none",
        "visibility" => matches!(value, "hidden" | "collapse"),
        "content-visibility" => value == "hidden",
        "opacity" => size().is_some_and(|size| size <= FAINT),
        "font-size" => is_tiny(value, FAINT),
        "color" | "-webkit-text-fill-color" => is_transparent(value),
        "left" | "top" | "right" | "bottom" | "text-indent" | "margin-left" | "margin-top" => {
            size().is_some_and(|size| size <= -FAR)
        }
        "width" | "height" | "max-width" | "max-height" => is_cut && is_tiny(value, 0),
        "clip" => value.strip_prefix("rect(").is_some_and(|inner| {
            let numbers = inner.split(|c: char| !c.is_ascii_digit());
            let mut numbers = numbers.filter(|number| !number.is_empty()).peekable();
            numbers.peek().is_some()
                && numbers.all(|number| matches!(number.parse(), Ok(0 | 1_u32)))
        }),
        "clip-path" => {
            let inset = value.strip_prefix("inset(").and_then(hundredths);
            value.starts_with("circle(0") || inset.is_some_and(|inset| inset >= 5_000)
        }
        "transform" => value.contains("scale(0)") || value.contains("scale(0,"),
        _ => false,
    }
}

/// Whether a size is too small to see: so many pixels or points, or `least` hundredths of any other
/// unit.
fn is_tiny(value: &str, least: i64) -> bool {
    let unit = value.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let most = if matches!(unit, "" | "px" | "pt") {
        TINY
    } else {
        least
    };
    hundredths(value).is_some_and(|size| size <= most)
}

/// The number at the beginning of a value, in hundredths. Percent count as hundredths of one.
fn hundredths(value: &str) -> Option<i64> {
    let (is_negative, digits) = match value.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, value),
    };
    let is_number = |c: char| c.is_ascii_digit() || c == '.';
    let end = digits.find(|c| !is_number(c)).unwrap_or(digits.len());
    let (number, unit) = digits.split_at(end);
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && part.is_empty() {
        return None;
    }
    let whole: i64 = match whole {
        "" => 0,
        whole => whole.parse().unwrap_or(i64::from(i32::MAX)),
    };
    let part: i64 = format!("{part:0<2}").get(..2)?.parse().ok()?;
    let mut size = whole.saturating_mul(100).saturating_add(part);
    if unit == "%" {
        size /= 100;
    }
    Some(if is_negative { -size } else { size })
}

fn is_transparent(value: &str) -> bool {
    if value == "transparent" {
        return true;
    }
    if let Some(digits) = value.strip_prefix('#') {
        return (digits.len() == 4 && digits.ends_with('0'))
            || (digits.len() == 8 && digits.ends_with("00"));
    }
    let parts = value
        .strip_prefix("rgba(")
        .or_else(|| value.strip_prefix("hsla("))
        .and_then(|inner| inner.strip_suffix(')'));
    parts.is_some_and(|parts| {
        let alpha = parts.split([',', '/']).nth(3);
        alpha
            .and_then(hundredths)
            .is_some_and(|alpha| alpha <= FAINT)
    })
}

/// A colour as six digits where it is written as one, so that two spellings of it are the same.
fn color(value: &str) -> Option<String> {
    let digits = match value {
        "white" => "ffffff",
        "black" => "000000",
        other => other.strip_prefix('#').unwrap_or(other),
    };
    if value.starts_with('#') && digits.len() == 3 {
        return Some(digits.chars().flat_map(|digit| [digit, digit]).collect());
    }
    (!digits.is_empty() && !matches!(digits, "inherit" | "initial" | "unset"))
        .then(|| digits.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn styles_that_hide() {
        for style in [
            "display:none",
            "DISPLAY : None !important",
            "visibility: hidden",
            "visibility:collapse",
            "opacity:0",
            "opacity: 0.01",
            "opacity:0%",
            "font-size:0",
            "font-size: 1px",
            "font-size:0.01em",
            "color:transparent",
            "color: rgba(0, 0, 0, 0)",
            "color:#fff0",
            "color:#ffffff00",
            "color:#fff; background:white",
            "background-color:#FFFFFF;color:#fff",
            "position:absolute; left:-9999px",
            "text-indent:-999em",
            "clip:rect(0 0 0 0)",
            "clip: rect(1px, 1px, 1px, 1px)",
            "clip-path: inset(50%)",
            "height:0;overflow:hidden",
            "transform:scale(0)",
        ] {
            assert!(style_hides(style), "{style}");
        }
    }

    #[test]
    fn styles_that_do_not() {
        for style in [
            "",
            "color:red",
            "display:block",
            "opacity:0.9",
            "opacity:1",
            "opacity:80%",
            "font-size:12px",
            "font-size:0.9em",
            "font-size:85%",
            "font-size:1rem",
            "left:-10px",
            "height:0",
            "height:40px;overflow:hidden",
            "width:1%;overflow:hidden",
            "margin-left:-20px",
            "text-indent:-2em",
            "color:#fff;background:#000",
            "color:inherit;background:inherit",
            "color:#abc0de",
            "clip-path:inset(0)",
            "clip:rect(10px,20px,30px,0)",
            "transform:scale(0.9)",
            "color",
            ":;;:",
        ] {
            assert!(!style_hides(style), "{style}");
        }
    }
}
