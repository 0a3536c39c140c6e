//! The parser itself: one per thread, stopped after a number of steps. Never by a clock: the same
//! script must get the same answer on a busy machine.

use std::{cell::RefCell, ops::ControlFlow};

use tree_sitter::{ParseOptions, Parser, Tree};

use super::limits::{BYTES_PER_PARSER_REPORT, MIN_PARSER_REPORTS};

thread_local! {
    /// Creating a parser costs more than parsing a short script.
    static PARSER: RefCell<Option<Parser>> = const { RefCell::new(None) };
}

/// The most brackets open at once, quoted or not. They dominate parsing time, so this is checked
/// before it starts.
pub(super) fn opened(script: &str) -> usize {
    let (mut open, mut most) = (0_usize, 0);
    for byte in script.bytes() {
        match byte {
            b'(' | b'{' | b'[' => {
                open += 1;
                most = most.max(open);
            }
            b')' | b'}' | b']' => open = open.saturating_sub(1),
            _ => {}
        }
    }
    most
}

/// The syntax tree of a script; `None` if it took too many steps.
pub(super) fn tree(script: &str) -> Option<Tree> {
    PARSER.with_borrow_mut(|slot| {
        let parser = if let Some(parser) = slot {
            parser
        } else {
            let mut parser = Parser::new();
            parser
                .set_language(&tree_sitter_bash::LANGUAGE.into())
                .ok()?;
            slot.insert(parser)
        };
        let most = MIN_PARSER_REPORTS + script.len() / BYTES_PER_PARSER_REPORT;
        let mut reports = 0_usize;
        let mut progress = |_: &tree_sitter::ParseState| {
            reports += 1;
            if reports > most {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        let options = ParseOptions::new().progress_callback(&mut progress);
        let bytes = script.as_bytes();
        let tree = parser.parse_with_options(
            &mut |offset, _| bytes.get(offset..).unwrap_or_default(),
            None,
            Some(options),
        );
        if tree.is_none() {
            // A stopped parse would be resumed with the next script.
            parser.reset();
        }
        tree
    })
}
