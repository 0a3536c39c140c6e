//! Row 7: looking up, listing and searching tools, with few of them and with very many.

use std::{hint::black_box, sync::Arc};

use haft_contract::{
    BoxFuture, CallContext, NoProgress, Plan, PlanContext, ProviderId, ToolError, ToolName,
    ToolSpec,
    erased::{ErasedTool, ParsedInput, ToolReply, WithheldReason},
};
use haft_runtime::registry::{Entry, Registry, Snapshot};
use serde_json::{Value, json};

use crate::{
    Scale,
    measure::{MeasuredPair, ResourcesUsed, repeated},
    report::{Goal, Row, time},
};

/// Tools of the small registry.
const FEW: usize = 10;

/// Tools of a page.
const PAGE: usize = 50;

/// Tools a search returns.
const FOUND: usize = 20;

const VERBS: [&str; 10] = [
    "create", "delete", "list", "update", "search", "export", "import", "assign", "archive",
    "merge",
];

const NOUNS: [&str; 20] = [
    "issue",
    "invoice",
    "payment",
    "ticket",
    "branch",
    "commit",
    "message",
    "channel",
    "customer",
    "order",
    "report",
    "dashboard",
    "metric",
    "alert",
    "document",
    "folder",
    "event",
    "calendar",
    "contact",
    "deal",
];

const QUERIES: [&str; 3] = ["create invoice", "deal export", "archive calendar server7"];

pub(crate) fn rows(scale: Scale) -> Vec<Row> {
    let (few, page, many) = (snapshot(FEW), snapshot(PAGE), snapshot(scale.tools));
    vec![
        look_up(scale, &few, &many),
        list_page(scale, &page, &many),
        search(scale, &many),
    ]
}

fn thread(used: &ResourcesUsed) -> f64 {
    used.thread
}

fn look_up(scale: Scale, few: &Snapshot, many: &Snapshot) -> Row {
    // The same few names on both sides, as one conversation asks for them.
    let names: Vec<String> = few.page(0, FEW).iter().map(name).collect();
    let look = |tools: &Snapshot| {
        let all = repeated(scale.slice, || {
            for name in &names {
                black_box(tools.get(name).unwrap());
            }
        });
        all.per(FEW)
    };
    let pair = MeasuredPair::measure(scale.rounds, || look(many), || look(few));
    Row {
        number: 7,
        metric: format!("look-up, {FEW} → {} tools", many.len()),
        ours: time(pair.ours(thread)),
        bare: format!("{} with {FEW}", time(pair.bare(thread))),
        figure: pair.ratio(thread),
        goal: Goal::RatioUpTo(2.0),
        beside: String::new(),
        limits: "the processor's caches",
    }
}

fn list_page(scale: Scale, page: &Snapshot, many: &Snapshot) -> Row {
    let list = |tools: &Snapshot, offset: usize| {
        repeated(scale.slice, || {
            for entry in tools.page(offset, PAGE) {
                black_box((entry.key(), &entry.spec().description, entry.input_schema()));
            }
        })
    };
    let middle = many.len() / 2;
    let pair = MeasuredPair::measure(scale.rounds, || list(many, middle), || list(page, 0));
    Row {
        number: 7,
        metric: format!("a listed page of {PAGE}, {PAGE} → {} tools", many.len()),
        ours: time(pair.ours(thread)),
        bare: format!("{} with {PAGE}", time(pair.bare(thread))),
        figure: pair.ratio(thread),
        goal: Goal::RatioUpTo(1.3),
        beside: String::new(),
        limits: "the processor's caches",
    }
}

fn search(scale: Scale, many: &Snapshot) -> Row {
    let text_of =
        |entry: &Arc<Entry>| format!("{} {}", name(entry), entry.spec().description).to_lowercase();
    let texts: Vec<String> = many.page(0, many.len()).iter().map(text_of).collect();
    // A scan looks at every tool, because the best may be the last.
    let scan = |query: &str| {
        let words: Vec<&str> = query.split(' ').collect();
        let hit = |text: &&String| words.iter().all(|word| text.contains(word));
        texts.iter().filter(hit).count()
    };
    for query in QUERIES {
        // The best are those that have every word, which are what a scan finds.
        let words: Vec<&str> = query.split(' ').collect();
        let fits = |entry: &&Arc<Entry>| words.iter().all(|word| text_of(entry).contains(word));
        let found = many.search(query).take(FOUND).filter(fits).count();
        assert_eq!(found, scan(query).min(FOUND), "{query}");
    }
    let ours = || {
        let all = repeated(scale.slice, || {
            for query in QUERIES {
                black_box(many.search(query).take(FOUND).count());
            }
        });
        all.per(QUERIES.len())
    };
    let bare = || {
        let all = repeated(scale.slice, || {
            for query in QUERIES {
                black_box(scan(query));
            }
        });
        all.per(QUERIES.len())
    };
    let pair = MeasuredPair::measure(scale.rounds, ours, bare);
    Row {
        number: 7,
        metric: format!("search of {} tools ÷ a linear scan", many.len()),
        ours: time(pair.ours(thread)),
        bare: time(pair.bare(thread)),
        figure: pair.ratio(thread),
        goal: Goal::RatioUpTo(0.2),
        beside: String::new(),
        limits: "every tool that has the first word is scored before the second word narrows them",
    }
}

fn name(entry: &Arc<Entry>) -> String {
    entry.key().tool.as_str().to_owned()
}

fn snapshot(tools: usize) -> Arc<Snapshot> {
    let registry = Registry::new();
    let provider = ProviderId::parse("mcp-many").unwrap();
    let tools = (0..tools).map(|number| Arc::new(OneOfMany::new(number)) as Arc<dyn ErasedTool>);
    registry.register(&provider, tools.collect()).unwrap();
    registry.snapshot()
}

/// One of very many tools. Its schema is known at run time only, as a mounted server's is.
struct OneOfMany {
    name: ToolName,
    description: String,
}

impl OneOfMany {
    fn new(number: usize) -> Self {
        let verb = VERBS[number % VERBS.len()];
        let noun = NOUNS[number / VERBS.len() % NOUNS.len()];
        let server = number / VERBS.len() / NOUNS.len();
        Self {
            name: ToolName::parse(&format!("server{server}__{verb}_{noun}_{number}")).unwrap(),
            description: format!(
                "Use it to {verb} one {noun} of server{server}. Takes its id; do not use it for \
                 several at once."
            ),
        }
    }
}

impl ErasedTool for OneOfMany {
    fn name(&self) -> &ToolName {
        &self.name
    }

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("One of many", self.description.as_str())
    }

    fn input_schema(&self) -> Value {
        json!({"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]})
    }

    fn output_schema(&self) -> Value {
        json!({"type": "object"})
    }

    fn program_digest(&self) -> Option<[u8; 32]> {
        None
    }

    fn withheld(&self) -> Option<WithheldReason> {
        None
    }

    fn parse(&self, input: &Value) -> Result<ParsedInput, ToolError> {
        Ok(ParsedInput::new(input.clone()))
    }

    fn plan(&self, _: &ParsedInput, _: &PlanContext) -> Result<Plan, ToolError> {
        Ok(Plan::read_only())
    }

    fn run(
        &self,
        _: ParsedInput,
        _: CallContext<NoProgress>,
    ) -> BoxFuture<'_, Result<ToolReply, ToolError>> {
        let reply = ToolReply {
            content: Vec::new(),
            structured: json!({}),
        };
        Box::pin(std::future::ready(Ok(reply)))
    }
}
