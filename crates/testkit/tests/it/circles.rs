//! Reads what the modules of each crate import from each other and fails on a circle between folders:
//! two folders that need each other cannot be read, tested or moved one at a time.
//!
//! At every level of a crate the modules that are siblings are compared, by the `use` declarations
//! and paths of their production code. What a module takes from its own parent does not count. Read
//! next: `docs/ARCHITECTURE.md`, "Invariants".

use std::collections::{BTreeMap, BTreeSet};

use crate::tidy::{SourceFile, report, rust_files, strip_tests};

/// Crates in which not even two files of the top level may need each other.
const STRICT: &[&str] = &["backends", "egress", "sandbox"];

/// Circles that are known, each with the reason it is there. Take a line out once it is broken.
const KNOWN: &[(&str, &str, &str)] = &[];

/// Through how many modules a name is followed that each passes on.
const MAX_PASSED_ON: usize = 4;

#[test]
fn no_two_folders_of_a_crate_need_each_other() {
    let mut problems = Vec::new();
    let mut met = BTreeSet::new();
    for (krate, modules) in crates() {
        let imports = imports(&modules);
        for parent in modules.keys() {
            for circle in circles(&siblings(&imports, parent)) {
                let folders: Vec<Module> = circle
                    .iter()
                    .filter(|module| is_folder(&modules, module))
                    .cloned()
                    .collect();
                let strict = parent.is_empty() && STRICT.contains(&krate.as_str());
                if folders.len() < 2 && !strict {
                    continue;
                }
                let members = if strict { circle } else { folders };
                let names: Vec<_> = members.iter().filter_map(|module| module.last()).collect();
                let names: Vec<&str> = names.into_iter().map(String::as_str).collect();
                let names = format!("{}{{{}}}", shown(parent), names.join(", "));
                let known = KNOWN
                    .iter()
                    .position(|(of, circle, _)| *of == krate && *circle == names);
                match known {
                    Some(known) => drop(met.insert(known)),
                    None => problems.push(format!("{krate}: {names}")),
                }
            }
        }
    }
    for (index, (krate, circle, _)) in KNOWN.iter().enumerate() {
        if !met.contains(&index) {
            problems.push(format!("{krate}: {circle} is in `KNOWN` and no circle"));
        }
    }
    report(
        &problems,
        "move what both need to a module below them, or what needs both above them",
    );
}

/// A module, by its path in the crate; the crate itself is empty.
type Module = Vec<String>;

/// The production text of every module of a crate.
type Modules = BTreeMap<Module, String>;

fn crates() -> BTreeMap<String, Modules> {
    let mut crates: BTreeMap<String, Modules> = BTreeMap::new();
    for SourceFile { path, text } in rust_files() {
        let Some((krate, file)) = path
            .strip_prefix("crates/")
            .and_then(|path| path.split_once("/src/"))
        else {
            continue;
        };
        let mut module: Module = file
            .trim_end_matches(".rs")
            .split('/')
            .map(str::to_owned)
            .collect();
        let last = module.last().map(String::as_str);
        if last == Some("mod") || (module.len() == 1 && matches!(last, Some("lib" | "main"))) {
            module.pop();
        }
        if !module.iter().any(|part| part == "tests" || part == "fuzz") {
            let modules = crates.entry(krate.to_owned()).or_default();
            modules.insert(module, strip_tests(&text));
        }
    }
    crates
}

/// Which module imports from which.
fn imports(modules: &Modules) -> BTreeSet<(Module, Module)> {
    let mut imports = BTreeSet::new();
    for (module, text) in modules {
        for path in paths(text) {
            if let Some(used) = resolve(modules, module, &path, 0) {
                imports.insert((module.clone(), used));
            }
        }
    }
    imports
}

/// The module in which the item of a path is, seen from a module.
fn resolve(modules: &Modules, from: &Module, path: &str, depth: usize) -> Option<Module> {
    let mut here: Module = Vec::new();
    let mut segments = path.split("::").peekable();
    match segments.next()? {
        "crate" => {}
        "self" => here.clone_from(from),
        "super" => {
            here.clone_from(from);
            here.pop();
            while segments.peek() == Some(&"super") {
                segments.next();
                here.pop();
            }
        }
        _ => return None,
    }
    let segments: Vec<&str> = segments.collect();
    let mut rest = segments.as_slice();
    while let [next, after @ ..] = rest {
        let mut inner = here.clone();
        inner.push((*next).to_owned());
        if !modules.contains_key(&inner) {
            break;
        }
        here = inner;
        rest = after;
    }
    // What a module only passes on is looked for where it comes from.
    if let ([name, ..], Some(text)) = (rest, modules.get(&here))
        && here != *from
        && depth < MAX_PASSED_ON
    {
        let (passed_on, _) = declared(text, |visibility| visibility.starts_with("pub"));
        for path in passed_on {
            if path.rsplit("::").next() != Some(name) {
                continue;
            }
            let begins = ["crate::", "self::", "super::"]
                .iter()
                .any(|start| path.starts_with(start));
            let path = if begins {
                path
            } else {
                format!("self::{path}")
            };
            match resolve(modules, &here, &path, depth + 1) {
                Some(origin) if origin != here => return Some(origin),
                Some(_) | None => {}
            }
        }
    }
    Some(here)
}

/// The paths of a text: one for each name of a `use` declaration, and those in code that begin at
/// the crate or a parent.
fn paths(text: &str) -> Vec<String> {
    let (mut paths, code) = declared(text, |_| true);
    paths.extend(inline_paths(&code));
    paths
}

/// The paths of the `use` declarations of a text whose visibility is wanted, and the code without
/// any declaration.
fn declared(text: &str, wanted: impl Fn(&str) -> bool) -> (Vec<String>, String) {
    let mut paths = Vec::new();
    let mut code = String::new();
    let mut lines = text
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default());
    while let Some(line) = lines.next() {
        let opening = line.trim_start();
        let Some((visibility, tree)) = opening
            .split_once("use ")
            .filter(|(before, _)| before.is_empty() || before.starts_with("pub"))
        else {
            code.push_str(line);
            code.push('\n');
            continue;
        };
        let mut tree = tree.to_owned();
        while !tree.contains(';') {
            let Some(line) = lines.next() else { break };
            tree.push_str(line);
        }
        if wanted(visibility) {
            let tree = tree.split(';').next().unwrap_or_default();
            leaves("", tree, &mut paths);
        }
    }
    (paths, code)
}

/// The names of a `use` tree, each with its whole path.
fn leaves(before: &str, tree: &str, found: &mut Vec<String>) {
    let tree = tree.trim();
    let Some((prefix, group)) = tree.split_once('{') else {
        let path = tree.split(" as ").next().unwrap_or_default().trim();
        let path = format!("{before}{path}");
        found.push(path.strip_suffix("::self").unwrap_or(&path).to_owned());
        return;
    };
    let before = format!("{before}{}", prefix.trim());
    let group = group.trim_end().strip_suffix('}').unwrap_or(group);
    let mut depth = 0_usize;
    for part in group.split(|c| {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    }) {
        if !part.trim().is_empty() {
            leaves(&before, part, found);
        }
    }
}

/// The paths in code that is no declaration.
fn inline_paths(code: &str) -> Vec<String> {
    code.split(|c: char| !c.is_alphanumeric() && c != '_' && c != ':')
        .filter(|word| word.starts_with("crate::") || word.starts_with("super::"))
        .map(|word| word.trim_end_matches(':').to_owned())
        .collect()
}

/// The imports between the children of one module, a child standing for everything in it.
fn siblings<'a>(
    imports: &'a BTreeSet<(Module, Module)>,
    parent: &Module,
) -> BTreeMap<&'a [String], BTreeSet<&'a [String]>> {
    let child = |module: &'a Module| {
        let inside = module.starts_with(parent) && module.len() > parent.len();
        inside.then(|| module.get(..=parent.len())).flatten()
    };
    let mut graph: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for (from, to) in imports {
        if let (Some(from), Some(to)) = (child(from), child(to))
            && from != to
        {
            graph.entry(from).or_default().insert(to);
        }
    }
    graph
}

/// The largest sets of modules of which each reaches each other.
fn circles(graph: &BTreeMap<&[String], BTreeSet<&[String]>>) -> Vec<Vec<Module>> {
    let reached = |from: &[String]| {
        let mut reached = BTreeSet::new();
        let mut waiting: Vec<&[String]> = graph.get(from).into_iter().flatten().copied().collect();
        while let Some(module) = waiting.pop() {
            if reached.insert(module.to_vec()) {
                waiting.extend(graph.get(module).into_iter().flatten().copied());
            }
        }
        reached
    };
    let all: BTreeMap<Module, BTreeSet<Module>> = graph
        .keys()
        .map(|module| (module.to_vec(), reached(module)))
        .collect();
    let circles: BTreeSet<Vec<Module>> = all
        .iter()
        .filter(|(module, reached)| reached.contains(*module))
        .map(|(module, reached)| {
            let back = |other: &&Module| all.get(*other).is_some_and(|all| all.contains(module));
            reached.iter().filter(back).cloned().collect()
        })
        .collect();
    circles.into_iter().collect()
}

fn is_folder(modules: &Modules, module: &Module) -> bool {
    modules
        .keys()
        .any(|other| other.len() > module.len() && other.starts_with(module))
}

fn shown(parent: &Module) -> String {
    parent.iter().flat_map(|part| [part, "/"]).collect()
}

#[test]
fn a_circle_is_found_through_declarations_paths_and_what_is_passed_on() {
    let modules = |files: &[(&str, &str)]| -> Modules {
        let module = |path: &str| -> Module {
            path.split('/')
                .filter(|part| !part.is_empty())
                .map(str::to_owned)
                .collect()
        };
        files
            .iter()
            .map(|(path, text)| (module(path), (*text).to_owned()))
            .collect()
    };
    let found = |modules: &Modules| circles(&siblings(&imports(modules), &Vec::new()));
    let straight = modules(&[
        ("", "mod a;\nmod b;\npub use b::Thing;"),
        ("a", "use crate::b::{self, Thing};"),
        ("b", "use std::fmt;\npub struct Thing;"),
    ]);
    assert!(found(&straight).is_empty());
    let declared = modules(&[
        ("", ""),
        ("a", "use crate::{\n    b::Thing,\n};"),
        ("b", ""),
        ("b/c", "fn f() { super::super::a::g() }"),
    ]);
    assert_eq!(found(&declared).len(), 1);
    let passed_on = modules(&[
        ("", "mod a;\nmod b;\npub use b::Thing;"),
        ("a", "use crate::Thing;"),
        ("b", "use crate::a::g;"),
    ]);
    assert_eq!(found(&passed_on).len(), 1);
}
