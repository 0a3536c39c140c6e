//! Parses a script into its simple commands, in written order.
//!
//! Every kind of node is either known here or makes its surroundings *unclear*: an unforeseen
//! construct can only ask. Commands inside substitutions, groups and bodies are found too, so that
//! a rule sees them at any depth. Does not determine what a command does; read next: `wrapper.rs`.

use std::ops::Range;

use tree_sitter::Node;

use super::{
    limits::{
        MAX_BYTES, MAX_COMMANDS, MAX_DEPTH, MAX_NESTING, MAX_NODES, MAX_OPEN_BRACKETS, Refusal,
    },
    options::has,
    parsed::{Assignment, ParsedCommand, ParsedScript, Redirection},
    tree::{opened, tree},
    unclear::UnclearReason,
    word::{Value, Word},
};

/// The nodes inside another one that are statements by themselves.
const STATEMENTS: &str = "command redirected_statement list pipeline negated_command if_statement \
     while_statement compound_statement subshell test_command declaration_command for_statement \
     case_statement function_definition variable_assignment variable_assignments";

pub(super) fn parse(script: &str) -> Result<ParsedScript, Refusal> {
    if script.len() > MAX_BYTES {
        return Err(Refusal::TooLong);
    }
    if opened(script) > MAX_OPEN_BRACKETS {
        return Err(Refusal::TooDeep);
    }
    let tree = tree(script).ok_or(Refusal::TooMuchWork)?;
    let root = tree.root_node();
    if root.descendant_count() > MAX_NODES {
        return Err(Refusal::TooManyNodes);
    }
    let mut walker = Walker {
        source: script,
        commands: Vec::new(),
        nesting: 0,
        depth: 0,
    };
    walker.statements(root)?;
    Ok(ParsedScript {
        commands: walker.commands,
        complete: !root.has_error(),
    })
}

struct Walker<'s> {
    source: &'s str,
    commands: Vec<ParsedCommand>,
    /// How many groups, subshells and substitutions surround the current node.
    nesting: usize,
    /// How many statements surround the current node: the grammar nests them even if the script
    /// does not.
    depth: usize,
}

impl<'s> Walker<'s> {
    fn text(&self, node: Node<'_>) -> &'s str {
        self.source.get(node.byte_range()).unwrap_or_default()
    }

    /// Parses every statement that is a child of this node.
    fn statements(&mut self, node: Node<'_>) -> Result<(), Refusal> {
        self.nesting += 1;
        if self.nesting > MAX_NESTING {
            return Err(Refusal::TooDeep);
        }
        let mut cursor = node.walk();
        let children: Vec<Node<'_>> = node.children(&mut cursor).collect();
        for child in children {
            self.statement(child)?;
        }
        self.nesting -= 1;
        Ok(())
    }

    fn statement(&mut self, node: Node<'_>) -> Result<(), Refusal> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Refusal::TooDeep);
        }
        self.known_statement(node)?;
        self.depth -= 1;
        Ok(())
    }

    fn known_statement(&mut self, node: Node<'_>) -> Result<(), Refusal> {
        if node.is_missing() {
            return self.odd(node, UnclearReason::Syntax);
        }
        match node.kind() {
            "comment" | "\n" | ";" | "&" | "&&" | "||" | "|" | "|&" | "!" | "(" | ")" | "{"
            | "}" | "if" | "then" | "elif" | "else" | "fi" | "while" | "until" | "do" | "done"
            | "" => Ok(()),
            "command" => {
                let simple = self.command(node)?;
                self.push(simple)
            }
            "redirected_statement" => self.redirected(node),
            "list" => self.list(node),
            "compound_statement" if self.text(node).starts_with("((") => {
                self.odd(node, UnclearReason::Arithmetic)
            }
            "subshell" | "pipeline" | "negated_command" | "if_statement" | "while_statement"
            | "do_group" | "elif_clause" | "else_clause" | "compound_statement" => {
                self.statements(node)
            }
            "test_command" => self.test(node),
            "variable_assignment" => {
                let mut simple = self.blank(node);
                self.assignment(node, &mut simple)?;
                self.push(simple)
            }
            "variable_assignments" => {
                let mut simple = self.blank(node);
                let mut cursor = node.walk();
                let children: Vec<Node<'_>> = node.named_children(&mut cursor).collect();
                for child in children {
                    self.assignment(child, &mut simple)?;
                }
                self.push(simple)
            }
            "declaration_command" | "unset_command" => {
                let mut simple = self.plain_words(node)?;
                simple.unclear.push(UnclearReason::Variables);
                self.push(simple)
            }
            "for_statement" | "c_style_for_statement" | "case_statement" => {
                self.odd(node, UnclearReason::Construct)
            }
            "function_definition" => self.odd(node, UnclearReason::Function),
            // Ends a branch of `case`, and is valid nowhere else.
            ";;" => Err(Refusal::Syntax),
            _ => self.odd(node, UnclearReason::Syntax),
        }
    }

    /// A statement that is not understood, and any commands inside it.
    fn odd(&mut self, node: Node<'_>, why: UnclearReason) -> Result<(), Refusal> {
        let mut simple = self.blank(node);
        simple.unclear.push(why);
        self.push(simple)?;
        self.inside(node)
    }

    /// Finds the commands and assignments anywhere inside a node.
    fn inside(&mut self, node: Node<'_>) -> Result<(), Refusal> {
        self.nesting += 1;
        if self.nesting > MAX_NESTING {
            return Err(Refusal::TooDeep);
        }
        let mut cursor = node.walk();
        let children: Vec<Node<'_>> = node.named_children(&mut cursor).collect();
        for child in children {
            match child.kind() {
                kind if has(STATEMENTS, kind) => self.statement(child)?,
                _ if child.named_child_count() > 0 => self.inside(child)?,
                _ => {}
            }
        }
        self.nesting -= 1;
        Ok(())
    }

    /// A list nests to the left, so a long one would be deep; its left edge is walked instead.
    fn list(&mut self, node: Node<'_>) -> Result<(), Refusal> {
        let mut right_to_left = Vec::new();
        let mut left = node;
        while left.kind() == "list" {
            let mut cursor = left.walk();
            let mut children: Vec<Node<'_>> = left.children(&mut cursor).collect();
            if children.is_empty() {
                break;
            }
            left = children.remove(0);
            right_to_left.extend(children.into_iter().rev());
        }
        self.statement(left)?;
        for child in right_to_left.into_iter().rev() {
            self.nesting += 1;
            if self.nesting > MAX_NESTING {
                return Err(Refusal::TooDeep);
            }
            self.statement(child)?;
            self.nesting -= 1;
        }
        Ok(())
    }

    fn push(&mut self, simple: ParsedCommand) -> Result<(), Refusal> {
        if self.commands.len() >= MAX_COMMANDS {
            return Err(Refusal::TooManyCommands);
        }
        self.commands.push(simple);
        Ok(())
    }

    fn blank(&self, node: Node<'_>) -> ParsedCommand {
        ParsedCommand {
            text: self.text(node).trim().to_owned(),
            assignments: Vec::new(),
            words: Vec::new(),
            redirections: Vec::new(),
            beside: Vec::new(),
            unclear: Vec::new(),
        }
    }

    fn command(&mut self, node: Node<'_>) -> Result<ParsedCommand, Refusal> {
        let mut simple = self.blank(node);
        let mut cursor = node.walk();
        let children: Vec<Node<'_>> = node.children(&mut cursor).collect();
        let mut end = node.start_byte();
        for child in children {
            self.gap(end, child.start_byte(), &mut simple);
            end = child.end_byte();
            match child.kind() {
                "variable_assignment" => self.assignment(child, &mut simple)?,
                "command_name" => {
                    let inner = child.child(0).unwrap_or(child);
                    let word = self.word(inner, &mut simple)?;
                    simple.words.push(word);
                }
                "file_redirect" => self.file_redirect(child, &mut simple)?,
                "herestring_redirect" => self.here_string(child, &mut simple)?,
                // `name (…)` is not a bash command.
                "subshell" | "regex" | "ERROR" => {
                    simple.unclear.push(UnclearReason::Syntax);
                    self.inside(child)?;
                }
                _ => {
                    let word = self.word(child, &mut simple)?;
                    simple.words.push(word);
                }
            }
        }
        Ok(simple)
    }

    /// Only blanks may separate two words; anything else the parser skipped like a blank would
    /// otherwise be lost.
    fn gap(&self, from: usize, to: usize, simple: &mut ParsedCommand) {
        let gap = self.source.get(from..to).unwrap_or_default();
        let blank = gap.replace("\\\n", "");
        if blank.contains(|c| c != ' ' && c != '\t') {
            simple.unclear.push(UnclearReason::Syntax);
        }
    }

    /// The grammar drops a word `-` before a here-document; it belongs to the command, or to the last
    /// one of a list that began at `first`.
    fn dash(&mut self, gap: Range<usize>, first: usize, simple: &mut ParsedCommand) {
        let dropped = self.source.get(gap.clone()).unwrap_or_default().trim() == "-";
        if !dropped {
            self.gap(gap.start, gap.end, simple);
        } else if !simple.words.is_empty() {
            simple.words.push(Word::literal("-"));
        } else if let Some([.., last]) = self.commands.get_mut(first..) {
            last.words.push(Word::literal("-"));
        } else {
            simple.unclear.push(UnclearReason::Syntax);
        }
    }

    /// A declaration, as words for rules to match.
    fn plain_words(&mut self, node: Node<'_>) -> Result<ParsedCommand, Refusal> {
        let mut simple = self.blank(node);
        let mut cursor = node.walk();
        let children: Vec<Node<'_>> = node.children(&mut cursor).collect();
        for child in children {
            let word = match child.kind() {
                "variable_assignment" => {
                    self.inside(child)?;
                    Word::unknown(self.text(child))
                }
                "variable_name" => Word::literal(self.text(child)),
                _ if !child.is_named() => Word::literal(self.text(child)),
                _ => self.word(child, &mut simple)?,
            };
            simple.words.push(word);
        }
        Ok(simple)
    }

    fn assignment(&mut self, node: Node<'_>, simple: &mut ParsedCommand) -> Result<(), Refusal> {
        let name = node.child_by_field_name("name");
        let value = node.child_by_field_name("value");
        let plain = name.is_some_and(|name| name.kind() == "variable_name");
        let word = match value {
            Some(value) if value.kind() == "array" => {
                self.inside(value)?;
                Word::unknown(self.text(value))
            }
            Some(value) => self.word(value, simple)?,
            None => Word::literal(""),
        };
        if !plain {
            self.inside(node)?;
        }
        simple.assignments.push(Assignment {
            name: name
                .map(|name| self.text(name))
                .unwrap_or_default()
                .to_owned(),
            raw: self.text(node).to_owned(),
            literal: plain && word.text().is_some(),
        });
        Ok(())
    }

    /// `body > file`. The parser treats every word after the operator as a target; all but the
    /// first are arguments of the body.
    fn redirected(&mut self, node: Node<'_>) -> Result<(), Refusal> {
        let mut cursor = node.walk();
        let children: Vec<Node<'_>> = node.children(&mut cursor).collect();
        let mut outer = self.blank(node);
        let first = self.commands.len();
        let mut single = true;
        let mut flat = false;
        let mut end = node.start_byte();
        for child in children {
            self.dash(end..child.start_byte(), first, &mut outer);
            end = child.end_byte();
            match child.kind() {
                "file_redirect" => self.file_redirect(child, &mut outer)?,
                "herestring_redirect" => self.here_string(child, &mut outer)?,
                "heredoc_redirect" => self.here_document(child, &mut outer)?,
                "command" => {
                    let mut simple = self.command(child)?;
                    simple.text.clone_from(&outer.text);
                    simple.redirections.append(&mut outer.redirections);
                    simple.beside.append(&mut outer.beside);
                    simple.unclear.append(&mut outer.unclear);
                    outer = simple;
                }
                kind => {
                    single = false;
                    flat |= matches!(kind, "list" | "pipeline" | "negated_command");
                    self.statement(child)?;
                }
            }
        }
        if single {
            // Commands in its substitutions were found before the command itself.
            return self.push(outer);
        }
        if !outer.words.is_empty() {
            outer.unclear.push(UnclearReason::Syntax);
        }
        // The grammar attaches `a && b > f` to the list; in bash it belongs to the last command.
        // What a group writes, its commands write.
        match self.commands.get_mut(first..) {
            Some([.., last]) if flat => {
                last.redirections.append(&mut outer.redirections);
                last.beside.append(&mut outer.beside);
                last.unclear.append(&mut outer.unclear);
                Ok(())
            }
            Some([only]) => {
                only.redirections.append(&mut outer.redirections);
                only.beside.append(&mut outer.beside);
                only.unclear.append(&mut outer.unclear);
                Ok(())
            }
            _ => self.push(outer),
        }
    }

    fn file_redirect(&mut self, node: Node<'_>, simple: &mut ParsedCommand) -> Result<(), Refusal> {
        let mut cursor = node.walk();
        let children: Vec<Node<'_>> = node.children(&mut cursor).collect();
        let mut operator = "";
        let mut target = None;
        for child in children {
            match child.kind() {
                "file_descriptor" => {}
                _ if !child.is_named() && operator.is_empty() => operator = self.text(child),
                _ => {
                    let word = self.word(child, simple)?;
                    if target.is_none() {
                        let written = self.source.get(node.start_byte()..child.end_byte());
                        simple.beside.extend(written.map(str::to_owned));
                        target = Some(word);
                    } else {
                        simple.words.push(word);
                    }
                }
            }
        }
        simple.redirections.push(Redirection {
            operator: operator.to_owned(),
            target: target.unwrap_or_else(|| Word::literal("")),
        });
        Ok(())
    }

    fn here_string(&mut self, node: Node<'_>, simple: &mut ParsedCommand) -> Result<(), Refusal> {
        let mut cursor = node.walk();
        let children: Vec<Node<'_>> = node.named_children(&mut cursor).collect();
        simple.beside.push(self.text(node).to_owned());
        for child in children {
            if child.kind() != "file_descriptor" {
                let word = self.word(child, simple)?;
                if word.value == Value::Unknown {
                    simple.unclear.push(UnclearReason::Expansion);
                }
            }
        }
        Ok(())
    }

    /// A here-document whose body is text is only input. The parser attaches commands that follow
    /// on its first line to it in ways that are not worth following.
    fn here_document(&mut self, node: Node<'_>, simple: &mut ParsedCommand) -> Result<(), Refusal> {
        let mut cursor = node.walk();
        let children: Vec<Node<'_>> = node.named_children(&mut cursor).collect();
        // All of it is shown, so its first line is not shown again.
        simple.beside.push(self.text(node).to_owned());
        let shown = simple.beside.len();
        let quoted = children.iter().any(|child| {
            child.kind() == "heredoc_start" && self.text(*child).contains(['\'', '"', '\\'])
        });
        for child in children {
            match child.kind() {
                "file_descriptor" | "heredoc_start" | "heredoc_end" => {}
                "file_redirect" => self.file_redirect(child, simple)?,
                "heredoc_body" => {
                    let expands = self.text(child).contains(['$', '`', '\\']);
                    if !quoted && expands {
                        simple.unclear.push(UnclearReason::Expansion);
                        self.inside(child)?;
                    }
                }
                _ => {
                    simple.unclear.push(UnclearReason::HereDocument);
                    self.statement(child)?;
                }
            }
        }
        simple.beside.truncate(shown);
        Ok(())
    }

    /// `[ … ]` with literal words is a command like any other. What `[[ … ]]` does with its
    /// operands (arithmetic, patterns) can run commands, and so can a word that is not literal.
    fn test(&mut self, node: Node<'_>) -> Result<(), Refusal> {
        let mut simple = self.blank(node);
        let text = self.text(node);
        let usual = |c: char| c.is_ascii_alphanumeric() || " _./-+@%".contains(c);
        let inner = text
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
            .filter(|inner| inner.chars().all(usual));
        if let Some(inner) = inner {
            let words = inner.split_ascii_whitespace();
            let words = std::iter::once("[").chain(words).chain(["]"]);
            simple.words.extend(words.map(Word::literal));
        } else {
            simple.words.push(Word::literal("test"));
            simple.unclear.push(UnclearReason::Test);
        }
        self.push(simple)?;
        self.inside(node)
    }

    fn word(&mut self, node: Node<'_>, simple: &mut ParsedCommand) -> Result<Word, Refusal> {
        let raw = self.text(node);
        if raw.starts_with('\n') {
            // No word begins with a line break: two commands were parsed as one.
            simple.unclear.push(UnclearReason::Syntax);
        }
        match node.kind() {
            // Single characters are literal and have their own tokens.
            "word" | "{" | "}" | "[" | "]" | "=" | "==" | "=~" => Ok(Word::bare(raw)),
            "number" | "variable_name" if node.named_child_count() == 0 => Ok(Word::bare(raw)),
            "raw_string" => Ok(Word::single_quoted(raw)),
            "string" if !expands(node) => Ok(Word::double_quoted(raw)),
            "concatenation" => {
                let mut cursor = node.walk();
                let children: Vec<Node<'_>> = node.children(&mut cursor).collect();
                let mut pieces = Vec::with_capacity(children.len());
                let mut end = node.start_byte();
                for child in children {
                    let piece = if child.start_byte() == end {
                        self.word(child, simple)?
                    } else {
                        Word::unknown(raw)
                    };
                    end = child.end_byte();
                    pieces.push(piece);
                }
                Ok(Word::joined(raw, pieces))
            }
            _ => {
                self.substitutions(node)?;
                if matches!(
                    node.kind(),
                    "arithmetic_expansion" | "expansion" | "process_substitution" | "ERROR"
                ) {
                    simple.unclear.push(UnclearReason::Expansion);
                }
                Ok(Word::unknown(raw))
            }
        }
    }

    /// The commands in a word's substitutions.
    fn substitutions(&mut self, node: Node<'_>) -> Result<(), Refusal> {
        match node.kind() {
            "command_substitution" | "process_substitution" => {
                let mut cursor = node.walk();
                let children: Vec<Node<'_>> = node.named_children(&mut cursor).collect();
                self.nesting += 1;
                if self.nesting > MAX_NESTING {
                    return Err(Refusal::TooDeep);
                }
                for child in children {
                    if child.kind() == "file_redirect" {
                        let mut simple = self.blank(child);
                        self.file_redirect(child, &mut simple)?;
                        self.push(simple)?;
                    } else {
                        self.statement(child)?;
                    }
                }
                self.nesting -= 1;
                Ok(())
            }
            _ => {
                let mut cursor = node.walk();
                let children: Vec<Node<'_>> = node.named_children(&mut cursor).collect();
                self.nesting += 1;
                if self.nesting > MAX_NESTING {
                    return Err(Refusal::TooDeep);
                }
                for child in children {
                    self.substitutions(child)?;
                }
                self.nesting -= 1;
                Ok(())
            }
        }
    }
}

fn expands(string: Node<'_>) -> bool {
    let mut cursor = string.walk();
    string
        .named_children(&mut cursor)
        .any(|child| child.kind() != "string_content")
}
