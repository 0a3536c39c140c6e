//! Tables: those with data as rows of cells, those that only arrange a page as what is in them.

use crate::{
    markdown::{PageWriter, is_line_number},
    tag::Tag,
    tree::{Attribute, NodeId, Tree},
};

/// The most columns that are written.
const MAX_COLUMNS: usize = 64;

impl PageWriter<'_> {
    pub(crate) fn table(&mut self, id: NodeId) {
        let tree = self.inline.tree;
        let rows = rows(tree, id);
        let columns = rows
            .iter()
            .map(Vec::len)
            .max()
            .unwrap_or_default()
            .min(MAX_COLUMNS);
        for child in tree.children(id) {
            if tree.tag(child) == Some(Tag::Caption) {
                self.nodes_of_caption(child);
            }
        }
        if let Some(lines) = code_lines(tree, &rows) {
            self.code_of(lines.into_iter(), id);
            return;
        }
        if columns < 2 || rows.len() < 2 || self.only_arranges(id, &rows) {
            for cell in rows.into_iter().flatten() {
                if !is_line_number(tree, cell) && !self.inline.selection.drops(cell) {
                    self.children(cell);
                }
            }
            return;
        }
        let mut lines = String::new();
        for (number, row) in rows.iter().enumerate() {
            if lines.len() > crate::MAX_TEXT_BYTES {
                break;
            }
            let mut cells: Vec<String> = row
                .iter()
                .take(MAX_COLUMNS)
                .map(|cell| self.one_line(*cell))
                .collect();
            if cells.iter().all(String::is_empty) {
                continue;
            }
            cells.resize(columns, String::new());
            if self.inline.is_plain {
                lines.push_str(cells.join("\t").trim_end());
                lines.push('\n');
                continue;
            }
            for cell in &cells {
                lines.push_str("| ");
                lines.push_str(&cell.replace('|', "\\|"));
                lines.push(' ');
            }
            lines.push_str("|\n");
            if number == 0 {
                lines.push_str(&"| --- ".repeat(columns));
                lines.push_str("|\n");
            }
        }
        self.writer.block(&lines);
    }

    fn nodes_of_caption(&mut self, id: NodeId) {
        let words = self.one_line(id);
        self.writer.block(&words);
    }

    /// Whether a table has things in its cells that are more than data.
    fn only_arranges(&self, id: NodeId, rows: &[Vec<NodeId>]) -> bool {
        let tree = self.inline.tree;
        let says_so = matches!(
            tree.attribute(id, Attribute::Role),
            Some("presentation" | "none")
        );
        says_so || rows.iter().flatten().any(|cell| holds_more(tree, *cell))
    }
}

/// The cells with code of a table that has a line of it in each row, behind its number.
fn code_lines(tree: &Tree, rows: &[Vec<NodeId>]) -> Option<Vec<NodeId>> {
    let line = |row: &Vec<NodeId>| match row.as_slice() {
        [number, code] if is_line_number(tree, *number) && !holds_more(tree, *code) => Some(*code),
        _ => None,
    };
    let lines: Option<Vec<NodeId>> = rows.iter().map(line).collect();
    lines.filter(|lines| lines.len() > 1)
}

/// Whether a cell holds a table, code in lines, or a heading.
pub(crate) fn holds_more(tree: &Tree, id: NodeId) -> bool {
    tree.children(id).any(|child| {
        matches!(
            tree.tag(child),
            Some(Tag::Table | Tag::Pre | Tag::Heading(_))
        ) || holds_more(tree, child)
    })
}

/// The cells of each row of a table, without those of tables in it.
pub(crate) fn rows(tree: &Tree, table: NodeId) -> Vec<Vec<NodeId>> {
    let mut rows = Vec::new();
    for child in tree.children(table) {
        match tree.tag(child) {
            Some(Tag::Tr) => rows.push(cells(tree, child)),
            Some(Tag::Thead | Tag::Tbody | Tag::Tfoot) => {
                let own = tree
                    .children(child)
                    .filter(|row| tree.tag(*row) == Some(Tag::Tr));
                rows.extend(own.map(|row| cells(tree, row)));
            }
            _ => {}
        }
    }
    rows
}

fn cells(tree: &Tree, row: NodeId) -> Vec<NodeId> {
    let is_cell = |id: &NodeId| matches!(tree.tag(*id), Some(Tag::Td | Tag::Th));
    tree.children(row).filter(is_cell).collect()
}
