//! The cost of listing tools, in tokens: per definition, per provider, in total, and for what
//! search would list instead.

use std::{collections::BTreeMap, sync::Arc};

use haft_contract::{ProviderId, ToolName};
use haft_runtime::registry::Entry;

use super::{Catalog, Mode, is_catalog_tool, tokens};

/// The cost of listing some tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cost {
    /// By provider, most expensive first.
    pub providers: Vec<ProviderCost>,
    /// Tokens of all tools, listed in full.
    pub full: usize,
    /// Tokens of what search lists.
    pub search: usize,
    /// Whether the endpoint lists these tools in search mode.
    pub searches: bool,
}

/// The cost of one provider's tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderCost {
    /// The provider.
    pub provider: ProviderId,
    /// Tokens of all its tools.
    pub tokens: usize,
    /// Each tool, most expensive first.
    pub tools: Vec<ToolCost>,
}

/// The cost of one tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCost {
    /// The tool.
    pub tool: ToolName,
    /// Tokens of its definition.
    pub tokens: usize,
}

impl Cost {
    /// Adds up the tools that a principal is shown, including the catalog's own search tools.
    pub fn of(shown: &[Arc<Entry>], catalog: &Catalog) -> Self {
        let mut by_provider: BTreeMap<ProviderId, Vec<ToolCost>> = BTreeMap::new();
        let is_extra = |entry: &&Arc<Entry>| is_catalog_tool(entry);
        for entry in shown.iter().filter(|entry| !is_extra(entry)) {
            let tool = ToolCost {
                tool: entry.key().tool.clone(),
                tokens: tokens(entry),
            };
            let provider = entry.key().provider.clone();
            by_provider.entry(provider).or_default().push(tool);
        }
        let mut providers: Vec<ProviderCost> = by_provider
            .into_iter()
            .map(|(provider, mut tools)| {
                tools.sort_by(|a, b| b.tokens.cmp(&a.tokens).then(a.tool.cmp(&b.tool)));
                ProviderCost {
                    provider,
                    tokens: tools.iter().map(|tool| tool.tokens).sum(),
                    tools,
                }
            })
            .collect();
        let by_cost = |a: &ProviderCost, b: &ProviderCost| {
            b.tokens.cmp(&a.tokens).then(a.provider.cmp(&b.provider))
        };
        providers.sort_by(by_cost);
        let in_search = Catalog {
            mode: Mode::Search,
            ..catalog.clone()
        };
        let listed = in_search.listed(shown.to_vec());
        Self {
            full: providers.iter().map(|provider| provider.tokens).sum(),
            search: listed.iter().map(|entry| tokens(entry)).sum(),
            searches: catalog.searches(shown),
            providers,
        }
    }
}
